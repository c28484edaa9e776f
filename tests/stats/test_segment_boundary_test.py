"""The test of one boundary: its z score, its sign test and the memory of the noise."""

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_ind

from perfci.stats.autocorrelation import mean_variance_ratio
from perfci.stats.location_estimates import median
from perfci.stats.segment_boundary_test import (
    MAX_AUTOCORRELATION,
    REJECTED_STRENGTH,
    BoundaryTest,
    WinsorizedSide,
    critical_z_score,
    estimate_autocorrelation,
    gls_z_score,
    winsorize,
)

SIGMA = 0.01


def draw_ar1(r: float, points: int, seed: int) -> np.ndarray:
    """Values with standard deviation 1 and lag-1 autocorrelation r."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 1, points)
    for k in range(1, points):
        values[k] = r * values[k - 1] + np.sqrt(1 - r * r) * values[k]
    return values


def build_test(logs: np.ndarray, *, r: float = 0.0, bar: float = 0.05) -> BoundaryTest:
    return BoundaryTest(logs, logs - np.median(logs), SIGMA, r, bar)


def draw_step(before: int, after: int, size: float, seed: int = 5) -> np.ndarray:
    logs = np.random.default_rng(seed).normal(0, SIGMA, before + after)
    logs[before:] += size
    return logs


def summarize(side: np.ndarray, variance: float) -> WinsorizedSide:
    """A side without outliers, of known variance."""
    level = float(np.median(side))
    return WinsorizedSide(len(side), level, side[0] - level, side[-1] - level, (side - level).sum(), variance)


def strength(logs: np.ndarray, *edges: int, r: float = 0.0) -> float:
    test = build_test(logs, r=r)
    return test.compute_strength([0, *edges, len(logs)], 1)


def test_a_clear_step_passes_whatever_its_size_and_no_step_does_not() -> None:
    assert strength(draw_step(20, 20, 0.10), 20) > 1
    assert strength(draw_step(20, 20, 0.03), 20) > 1
    assert strength(draw_step(20, 20, 0.0), 20) < 1


def test_the_newest_level_needs_more_than_one_that_is_settled() -> None:
    """It is looked at with every point."""
    logs = draw_step(20, 20, 0.03)
    newest = build_test(logs).compute_strength([0, 20, 40], 1)
    settled = build_test(np.append(logs, logs[-1])).compute_strength([0, 20, 40, 41], 1)

    assert newest < settled


def test_a_short_first_level_is_never_left() -> None:
    assert strength(draw_step(4, 20, 0.2), 4) == REJECTED_STRENGTH
    assert strength(draw_step(5, 20, 0.2), 5) > 1


def test_a_level_of_three_points_that_is_taken_back_is_a_spike() -> None:
    logs = draw_step(20, 23, 0.2)
    logs[23:] -= 0.2

    assert strength(logs, 20, 23) == REJECTED_STRENGTH


def test_a_memory_makes_a_gradual_step_weaker_than_an_abrupt_one() -> None:
    abrupt = np.repeat([0.0, 1.0], 20)
    gradual = np.interp(np.arange(40), [14, 26], [0.0, 1.0])
    scores = [
        gls_z_score(winsorize(line[:20], 1.0), winsorize(line[20:], 1.0), r)
        for r in (0.0, 0.9)
        for line in (abrupt, gradual)
    ]

    assert scores[1] / scores[0] > 0.8
    assert scores[3] / scores[2] < 0.3


@pytest.mark.parametrize(("before", "after"), [(3, 17), (8, 8), (12, 40)])
def test_without_a_memory_the_z_score_is_that_of_two_means(before: int, after: int) -> None:
    logs = draw_step(before, after, 0.02)
    sides = logs[:before], logs[before:]
    variance = sum(((side - side.mean()) ** 2).sum() for side in sides) / (before + after - 2)

    z = gls_z_score(*(summarize(side, variance) for side in sides), 0.0)

    assert z == pytest.approx(abs(ttest_ind(*sides).statistic))


@pytest.mark.parametrize("r", [0.0, 0.4, 0.9])
def test_the_variance_of_a_mean_is_that_of_simulated_ones(r: float) -> None:
    covariance = r ** np.abs(np.subtract.outer(np.arange(7), np.arange(7)))

    assert mean_variance_ratio(7, r) == pytest.approx(covariance.mean())


@pytest.mark.parametrize("r", [0.3, 0.9])
def test_gls_agrees_with_solving_the_whole_covariance(r: float) -> None:
    line = draw_ar1(r, 25, seed=3)
    weights = np.linalg.inv(r ** np.abs(np.subtract.outer(np.arange(25), np.arange(25))))
    design = np.stack([np.ones(25), np.arange(25) >= 9], axis=1)
    information = design.T @ weights @ design
    size = np.linalg.solve(information, design.T @ weights @ line)[1]

    z = gls_z_score(summarize(line[:9], 1.0), summarize(line[9:], 1.0), r)

    assert z == pytest.approx(abs(size) / np.sqrt(np.linalg.inv(information)[1, 1]))


@pytest.mark.parametrize("r", [0.0, 0.3, 0.6, 0.9])
def test_the_autocorrelation_is_found_beside_steps(r: float) -> None:
    """On the average over forty lines, less the standard error that is added."""
    found = []
    for seed in range(40):
        line = draw_ar1(r, 200, seed)
        stepped = line + 12 * (np.arange(200) // 25 % 3)
        found.append(estimate_autocorrelation(stepped) - 1 / np.sqrt(200))

    assert np.mean(found) == pytest.approx(r, abs=0.07)


def test_a_wandering_level_has_the_largest_autocorrelation() -> None:
    assert estimate_autocorrelation(np.linspace(0, 3, 50)) == MAX_AUTOCORRELATION


def test_the_sign_test_is_the_binomial_one() -> None:
    """Six points of a short side beyond the middle, where one of forty others lies as far out."""
    logs = draw_step(40, 6, 0.1)
    logs[7] += 0.09
    test = build_test(logs)
    middle = median(logs[40:]) / 2

    p_value = test._sign_test(0, 40, 46, 0.0, median(logs[40:]))

    assert (logs[:40] > middle).sum() == 1
    assert p_value == pytest.approx(binomtest(6, 6, 1.5 / 41, alternative="greater").pvalue)


def test_bursts_that_come_again_and_again_are_no_level() -> None:
    rng = np.random.default_rng(8)
    logs = rng.normal(0, SIGMA, 120)
    for at in range(5, 110, 9):
        logs[at : at + 3] += 0.3
    logs[60:64] = 0.3

    assert strength(logs, 60, 64) < 1


@pytest.mark.parametrize(("points", "moved"), [(14, 2), (15, 5), (30, 10)])
def test_at_most_a_fifth_or_a_third_of_a_side_are_outliers(points: int, moved: int) -> None:
    """One more of them is noise, and counts with its whole distance."""
    side = np.random.default_rng(1).normal(0, SIGMA, points)
    variances = []
    for outliers in (moved, moved + 1):
        side[:outliers] = 1.0
        variances.append(winsorize(side, SIGMA**2).variance)

    assert variances[0] < 0.05**2
    assert variances[1] > 0.2**2


def test_few_points_need_a_larger_z_score() -> None:
    assert critical_z_score(8) > critical_z_score(80) > 3.7


@pytest.mark.parametrize("count", [1, 2, 7, 20])
def test_the_median_is_numpys(count: int) -> None:
    points = np.random.default_rng(count).normal(0, 1, count)

    assert median(points) == np.median(points)
