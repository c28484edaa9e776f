"""The mean of many shifts and its error."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from perfci.stats.binomial_tests import clopper_pearson_interval, passes_sign_test
from perfci.stats.random_effects import pool_shifts

SHIFTS = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=30)


def test_gives_the_figures_of_the_paper_by_hand() -> None:
    centres, errors = [0.0, 0.1, 0.3], [0.1, 0.1, 0.2]

    shifts = pool_shifts(centres, errors)

    # weights 100, 100, 25: mean 17.5 / 225, Q = 1.3889 < 2, so nothing lies between and the fixed error
    # stands
    assert (shifts.centre, shifts.between_sd, shifts.df) == (pytest.approx(17.5 / 225), 0.0, 2)
    assert shifts.error == pytest.approx(1 / 15)


def test_what_lies_between_the_shifts_is_told_from_their_errors() -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(0.01, 0.03, 400)

    shifts = pool_shifts((truth + rng.normal(0, 0.01, 400)).tolist(), [0.01] * 400)

    assert shifts.between_sd == pytest.approx(0.03, rel=0.15)
    assert shifts.error == pytest.approx(math.hypot(0.03, 0.01) / 20, rel=0.15)


@pytest.mark.parametrize("between", [0.0, 0.01, 0.05])
def test_its_interval_covers_the_true_mean_nineteen_times_in_twenty(between: float) -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(1000):
        errors = rng.uniform(0.003, 0.02, 8)
        low, high = pool_shifts(
            rng.normal(0.02, np.hypot(errors, between)).tolist(), errors.tolist()
        ).bounds()
        covered += low <= 0.02 <= high

    assert (
        covered >= 928
    )  # the spread is estimated too, which costs a point; and two standard deviations of the count


@given(SHIFTS, st.floats(1e-3, 0.1), st.randoms(use_true_random=False))
def test_order_and_direction_do_not_matter(centres: list[float], error: float, dice: object) -> None:
    errors = [error] * len(centres)
    shuffled = sorted(centres)

    there, back = pool_shifts(shuffled, errors), pool_shifts([-centre for centre in centres], errors)

    assert there.centre == pytest.approx(-back.centre, abs=1e-12)
    assert there.error == pytest.approx(back.error)


@given(SHIFTS, st.floats(1e-3, 0.1))
def test_agreement_never_makes_it_surer_than_the_errors_are(centres: list[float], error: float) -> None:
    assert pool_shifts(centres, [error] * len(centres)).error >= error / math.sqrt(len(centres)) * (1 - 1e-9)


def test_four_of_four_may_be_chance_and_five_of_five_are_not() -> None:
    assert not passes_sign_test([0.1] * 4)
    assert passes_sign_test([0.1] * 5)
    assert not passes_sign_test([0.1] * 14 + [-0.1] * 6)
    assert passes_sign_test([-0.1] * 15 + [0.1] * 5)
    assert not passes_sign_test([0.0] * 20)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (0, 300, 0.0, 0.0122),  # the rule of three, a little above: 1 - 0.025 ** (1 / 300)
        (1, 10, 0.0025, 0.4450),  # Clopper & Pearson (1934), read from their chart's curves
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
    ],
)
def test_is_the_interval_of_clopper_and_pearson(hits: int, trials: int, low: float, high: float) -> None:
    assert clopper_pearson_interval(hits, trials) == (
        pytest.approx(low, abs=5e-5),
        pytest.approx(high, abs=5e-5),
    )


def test_nothing_tried_says_nothing() -> None:
    assert clopper_pearson_interval(0, 0) == (0.0, 1.0)


def test_more_hits_than_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 3 hits, found 4"):
        clopper_pearson_interval(4, 3)


@given(st.data())
def test_each_end_leaves_half_the_error_outside(data: st.DataObject) -> None:
    trials = data.draw(st.integers(1, 5000))
    hits = data.draw(st.integers(0, trials))

    low, high = clopper_pearson_interval(hits, trials)

    assert 0 <= low <= hits / trials <= high <= 1
    assert hits == 0 or binom.sf(hits - 1, trials, low) == pytest.approx(0.025, rel=1e-6)
    assert hits == trials or binom.cdf(hits, trials, high) == pytest.approx(0.025, rel=1e-6)


@given(trials=st.integers(1, 60), share=st.floats(0, 1))
def test_covers_the_truth_in_95_of_100(trials: int, share: float) -> None:
    covering = [
        k for k in range(trials + 1) if (ends := clopper_pearson_interval(k, trials))[0] <= share <= ends[1]
    ]

    assert (
        np.exp(binom.logpmf(covering, trials, share)).sum() >= 0.95 - 1e-9
    )  # pmf itself overflows at 1e-300
