"""Shifts and their intervals."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.stats.location_shift import (
    LEVEL_RESOLUTION,
    NoisePrior,
    estimate_shift,
    level_resolution,
    serial_variance_inflation,
    shift_within_modes,
    student_paired_shift,
    welch_unpaired_shift,
)

Sides = tuple[np.ndarray, np.ndarray]

levels = st.lists(st.floats(-3, 3).map(lambda x: round(x, 4)), min_size=2, max_size=12)
properties = settings(derandomize=True, deadline=None, max_examples=60)


@st.composite
def both_sides(draw: st.DrawFn) -> Sides:
    base = draw(levels)
    head = draw(st.lists(st.floats(-3, 3).map(lambda x: round(x, 4)), min_size=len(base), max_size=len(base)))
    return np.array(base), np.array(head)


def coverage(make: Callable[[np.random.Generator], Sides], trials: int = 400) -> float:
    """Share of intervals that hold the true shift of 0."""
    hits = 0
    for trial in range(trials):
        low, high = estimate_shift(*make(np.random.default_rng(trial))).bounds()
        hits += low <= 0 <= high
    return hits / trials


@pytest.mark.parametrize("pairs", [5, 10])
def test_intervals_have_nominal_coverage_on_independent_sides(pairs: int) -> None:
    assert 0.92 < coverage(lambda rng: (rng.normal(0, 0.01, pairs), rng.normal(0, 0.01, pairs))) < 0.98


def test_intervals_have_nominal_coverage_when_the_machine_drifts() -> None:
    def drifting(rng: np.random.Generator) -> Sides:
        drift = rng.normal(0, 0.05, 8)
        return drift + rng.normal(0, 0.005, 8), drift + rng.normal(0, 0.005, 8)

    assert coverage(drifting) > 0.92


def test_intervals_have_nominal_coverage_when_processes_have_two_modes() -> None:
    def bimodal(rng: np.random.Generator) -> Sides:
        sides = [rng.normal(0, 0.004, 6) + 0.06 * (rng.random(6) < 0.3) for _ in range(2)]
        return sides[0], sides[1]

    assert coverage(bimodal) > 0.92


def test_pairing_cancels_drift() -> None:
    rng = np.random.default_rng(4)
    drift = rng.normal(0, 0.1, 8)
    base, head = drift + rng.normal(0, 0.002, 8), drift + 0.05 + rng.normal(0, 0.002, 8)

    assert estimate_shift(base, head).half_width() < 0.01 < welch_unpaired_shift(base, head).half_width()


def test_weakly_correlated_drift_still_shortens_the_intervals_of_few_pairs() -> None:
    dice = np.random.default_rng(7)
    session_drifts, own = dice.normal(0, 0.03, (400, 6)), dice.normal(0, 0.02, (400, 2, 6))
    sides = [
        (session_drift + base, session_drift + head)
        for session_drift, (base, head) in zip(session_drifts, own, strict=True)
    ]

    shorter = np.mean([estimate_shift(*both).half_width() for both in sides])

    assert shorter < 0.85 * np.mean([welch_unpaired_shift(*both).half_width() for both in sides])
    assert (
        np.mean(
            [abs(side.centre) < side.half_width() for side in map(estimate_shift, *zip(*sides, strict=True))]
        )
        > 0.94
    )


def test_an_outlier_of_one_process_does_not_move_the_shift() -> None:
    rng = np.random.default_rng(5)
    base, head = rng.normal(0, 0.01, 10), rng.normal(0, 0.01, 10)
    clean = estimate_shift(base, head)

    head[3] += 0.6

    assert abs(estimate_shift(base, head).centre - clean.centre) < 0.01


def test_modes_that_both_sides_visit_are_compared_within() -> None:
    base = np.array([0.0, 0.001, -0.001, 0.1, 0.101, 0.0])
    head = base[[3, 4, 0, 3, 4, 1]] + 0.08

    shift = shift_within_modes(base, head, LEVEL_RESOLUTION, is_paired=True)

    assert shift is not None
    assert shift.centre == pytest.approx(0.08, abs=0.002)


def test_an_ambiguous_mode_matching_gives_an_interval_that_spans_both() -> None:
    base = np.array([0.0, 0.001, -0.001, 0.002, -0.002])
    head = np.array([0.02, 0.021, 0.08, 0.081, 0.079])

    low, high = estimate_shift(base, head).bounds()

    assert low < 0.02 < 0.08 < high


def test_most_of_a_side_in_the_upper_mode_does_not_prove_the_other_side_there_too() -> None:
    base = np.array([0.0006, 0.0016, 0.0, -0.005, -0.0041])
    head = np.array([0.015, 0.0838, 0.0731, 0.0788, 0.0732])

    low, high = estimate_shift(base, head).bounds()

    assert low < 0.02 < 0.08 < high


def test_a_doubtful_mode_mix_gives_an_interval_that_spans_both_estimates() -> None:
    rng = np.random.default_rng(11)
    base, head = rng.normal(0, 0.002, 8), rng.normal(0, 0.002, 8)
    base[:2] += 0.1
    head[:7] += 0.1

    low, high = estimate_shift(base, head).bounds()

    assert low < 0.0 < 0.1 * 5 / 8 < high


def test_a_changed_mode_mix_is_a_shift() -> None:
    base = np.array([0.0] * 9 + [0.1]) + np.linspace(-0.001, 0.001, 10)
    head = np.array([0.1] * 9 + [0.0]) + np.linspace(-0.001, 0.001, 10)

    shift = estimate_shift(base, head)

    assert shift.centre == pytest.approx(0.08)
    assert 0.02 < shift.bounds_of_move()[0] < 0.08 < shift.bounds_of_move()[1]


def test_equal_shares_are_not_proven_by_a_mix_that_may_be_equal() -> None:
    rng = np.random.default_rng(13)
    base, head = rng.normal(0, 0.006, (2, 10))
    base[:1] += 0.26
    head[:4] += 0.26

    shift = estimate_shift(base, head)

    assert shift.bounds_of_move()[1] < 0.03
    assert shift.bounds()[1] > 0.26 * 0.3


def test_a_single_slow_process_is_the_first_of_a_mode_until_enough_others_are_fast() -> None:
    rng = np.random.default_rng(14)
    base, head = rng.normal(0, 0.006, (2, 20))
    head[2] += 0.26

    early, late = (estimate_shift(base[:pairs], head[:pairs]) for pairs in (5, 17))

    assert early.bounds_of_move()[1] < 0.03 < 0.1 < early.bounds()[1]
    assert late.bounds()[1] < 0.03


def test_the_estimate_follows_the_head() -> None:
    rng = np.random.default_rng(15)
    for _ in range(200):
        base, head = rng.normal(0, 0.01, (2, 8)) + 0.3 * (rng.random((2, 8)) < 0.4)
        before, after = estimate_shift(base, head), estimate_shift(base, head + 0.01)

        assert after.centre == pytest.approx(before.centre + 0.01, abs=1e-9)
        assert after.bounds() == pytest.approx(np.add(before.bounds(), 0.01), abs=1e-9)


def test_whole_ticks_are_no_modes() -> None:
    base, head = (np.log(np.array(side)) for side in ([20, 20, 19, 19, 20], [20, 20, 21, 21, 20]))

    shift = estimate_shift(base, head)

    assert shift.modes is None
    assert shift.bounds()[0] < 0
    assert level_resolution(base, head) == pytest.approx(np.log(21 / 20) / 12**0.5)
    assert level_resolution(base[:3], np.array([2.99, 2.98, 2.97])) == LEVEL_RESOLUTION


@pytest.mark.parametrize("pairs", [5, 10])
def test_intervals_cover_where_the_clock_is_coarse(pairs: int) -> None:
    def ticks(rng: np.random.Generator) -> Sides:
        base, head = np.log(np.round(20 * np.exp(rng.normal(0, 0.03, (2, pairs)))))
        return base, head

    assert coverage(ticks) >= 0.93


def autoregressive(rng: np.random.Generator, count: int, phi: float) -> np.ndarray:
    values = [rng.normal()]
    while len(values) < count:
        values.append(phi * values[-1] + (1 - phi**2) ** 0.5 * rng.normal())
    return np.array(values)


def test_serially_correlated_pairs_have_wider_intervals() -> None:
    def serial(rng: np.random.Generator) -> Sides:
        base = rng.normal(0, 0.01, 20)
        return base, base + 0.02 * autoregressive(rng, 20, 0.8)

    assert coverage(serial) > 0.78


def test_independent_pairs_pay_next_to_nothing_for_their_order() -> None:
    rng = np.random.default_rng(16)
    inflations = [serial_variance_inflation(rng.normal(0, 0.02, 12)) ** 0.5 for _ in range(2000)]

    assert np.mean(inflations) < 1.03
    assert serial_variance_inflation(np.linspace(-0.1, 0.1, 10)) > 5


def test_one_pair_has_a_shift_and_no_interval() -> None:
    shift = estimate_shift(np.array([0.0]), np.array([0.1]))

    assert shift.centre == pytest.approx(0.1)
    assert shift.half_width() == np.inf
    assert shift.p_value() == 1.0


def test_a_noise_prior_gives_one_pair_an_interval() -> None:
    shift = estimate_shift(np.array([0.0]), np.array([0.1]), prior=NoisePrior(0.02, 10))

    assert shift.half_width() == pytest.approx(2.228 * 0.02, rel=1e-3)


def test_a_prior_the_pairs_contradict_counts_for_nothing() -> None:
    ratios = np.random.default_rng(12).normal(0.1, 0.02, 12)
    bare = estimate_shift(np.zeros(12), ratios)

    for wrong in (0.5, 1e-5):
        shift = estimate_shift(np.zeros(12), ratios, prior=NoisePrior(wrong, 8))
        assert (shift.error, shift.df) == (
            pytest.approx(bare.error, rel=1e-3),
            pytest.approx(bare.df, abs=0.01),
        )
    assert estimate_shift(np.zeros(12), ratios, prior=NoisePrior(0.02, 8)).df == bare.df + 8


def test_equal_levels_have_a_positive_error() -> None:
    shift = estimate_shift(np.zeros(5), np.zeros(5))

    assert 0 < shift.half_width() < 0.002


def test_disagreement_of_mean_and_ranks_widens_the_error_and_a_move_needs_both() -> None:
    base, head = np.array([0.0, 0.01, -0.01, 0.005, -0.005]), np.array([0.03, 0.04, 0.035, 0.09, 0.1])

    shift = welch_unpaired_shift(base, head)

    assert shift.centre_range == pytest.approx((0.045, 0.059), abs=1e-9)  # Hodges & Lehmann, and the mean
    assert shift.error == pytest.approx(((1 - 0.047) * 0.0155**2 + 0.014**2) ** 0.5, rel=0.02)


def test_sides_of_unequal_size_are_compared_unpaired() -> None:
    result = estimate_shift(np.array([0.0, 0.01, -0.01, 0.0]), np.array([0.1, 0.11, 0.09]), is_paired=False)

    assert result.centre == pytest.approx(0.1)
    assert result.pairs == 3


def test_the_t_of_pairs_is_the_textbook_one() -> None:
    ratios = np.array([0.02, 0.04, 0.03, 0.05, 0.01])

    shift = student_paired_shift(np.zeros(5), ratios)

    assert shift.half_width() == pytest.approx(2.776 * ratios.std(ddof=1) / 5**0.5, rel=1e-3)


@properties
@given(both_sides(), st.floats(-5, 5))
def test_the_unit_does_not_matter(sides: Sides, unit: float) -> None:
    base, head = sides
    before, after = estimate_shift(base, head), estimate_shift(base + unit, head + unit)

    assert after.centre == pytest.approx(before.centre, abs=1e-9)


@properties
@given(both_sides())
def test_time_may_run_backwards(sides: Sides) -> None:
    base, head = sides
    before, after = estimate_shift(base, head), estimate_shift(base[::-1], head[::-1])

    assert after.centre == pytest.approx(before.centre, abs=1e-9)
    assert after.error == pytest.approx(before.error, abs=1e-9)


@properties
@given(both_sides())
def test_swapping_the_sides_negates_the_shift(sides: Sides) -> None:
    base, head = sides
    forth, back = estimate_shift(base, head), estimate_shift(head, base)

    assert back.centre == pytest.approx(-forth.centre, abs=1e-9)
    assert back.error == pytest.approx(forth.error, abs=1e-9)
