"""The test of one boundary: its statistics, rank separation and mode switches."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from perfci.stats.segment_boundary_test import (
    classify_mode_switch,
    compute_boundary_statistics,
    critical_separation,
    rank_separation,
    sort_with_median,
)

RNG = np.random.default_rng(5)
BEFORE, AFTER = RNG.normal(0.0, 0.01, 20), RNG.normal(0.1, 0.01, 20)


def test_a_clear_step_has_a_strength_above_one() -> None:
    boundary_statistics = compute_boundary_statistics(BEFORE, AFTER, reach=15, sigma=0.01, min_size=0.05)

    assert boundary_statistics.size == pytest.approx(0.1, abs=0.01)
    assert boundary_statistics.strength > 1
    assert boundary_statistics.z_score > boundary_statistics.required_z_score


def test_the_order_of_points_matters_only_for_the_nearest_ones() -> None:
    boundary_statistics = compute_boundary_statistics(BEFORE, AFTER, reach=20, sigma=0.01, min_size=0.05)
    other = compute_boundary_statistics(BEFORE[::-1], AFTER[::-1], reach=20, sigma=0.01, min_size=0.05)

    assert boundary_statistics == other


def test_a_short_side_needs_more_sigmas() -> None:
    short, long = (
        compute_boundary_statistics(BEFORE, AFTER[:n], reach=15, sigma=0.01, min_size=0.05).required_z_score
        for n in (4, 5)
    )

    assert short > long


@pytest.mark.parametrize("points", [BEFORE, BEFORE[:7], BEFORE[:1]])
def test_sorting_gives_the_median(points: np.ndarray) -> None:
    assert sort_with_median(points)[1] == np.median(points)


def test_rank_separation_counts_ties_half() -> None:
    assert rank_separation([1, 2, 3], [4, 5]) == 1.0
    assert rank_separation([1, 2], [1, 2]) == 0.5
    assert rank_separation([], [1]) == 0.5
    assert rank_separation([4, 5], [1, 2, 3]) == 1.0


@pytest.mark.parametrize(("before", "after"), [(3, 17), (4, 11), (8, 8), (12, 40)])
def test_the_critical_separation_agrees_with_scipys_exact_test(before: int, after: int) -> None:
    """The lowest ``missed`` of the pairs in the wrong order: scipy's exact test of such samples agrees."""
    missed = round((1 - critical_separation(before, after, 1e-3)) * before * after)

    assert p_of(before, after, missed) <= 1e-3 < p_of(before, after, missed + 1)


def test_too_few_points_are_never_separated_enough() -> None:
    assert critical_separation(3, 5, 1e-3) > 1


def p_of(before: int, after: int, missed: int) -> float:
    """How often chance leaves at most so many pairs in the wrong order: the highest ``before`` point passes
    them.
    """
    passing, rest = divmod(missed, after)
    high = [after + 1.0] * passing + [rest - 0.5] * bool(rest)
    low = [-k - 1.0 for k in range(before - len(high))]
    return float(mannwhitneyu([*low, *high], np.arange(after), alternative="less", method="exact").pvalue)


def line(*runs: tuple[float, int]) -> np.ndarray:
    return np.concatenate([np.full(length, level) for level, length in runs])


def test_one_more_run_at_a_recurring_level_is_a_mode_switch() -> None:
    logs = line((0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8))

    mode_switch = classify_mode_switch(logs, 46, 0.0, 0.1)

    assert (mode_switch.is_switch, mode_switch.is_final) == (True, False)


def test_a_mode_switch_is_final_once_the_level_returned() -> None:
    logs = line((0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8), (0.0, 5))

    assert classify_mode_switch(logs, 46, 0.0, 0.1).is_final


def test_a_run_much_longer_than_the_others_is_a_new_level() -> None:
    logs = line((0.0, 10), (0.1, 8), (0.0, 10), (0.1, 8), (0.0, 10), (0.1, 40))

    assert not classify_mode_switch(logs, 46, 0.0, 0.1).is_switch


def test_a_single_point_at_a_level_is_no_run() -> None:
    logs = line((0.0, 10), (0.1, 1), (0.0, 10), (0.1, 1), (0.0, 10), (0.1, 8))

    assert not classify_mode_switch(logs, 32, 0.0, 0.1).is_switch


def test_a_level_seen_for_the_first_time_is_no_mode_switch() -> None:
    mode_switch = classify_mode_switch(line((0.0, 30), (0.1, 8)), 30, 0.0, 0.1)

    assert (mode_switch.is_switch, mode_switch.is_final) == (False, True)
