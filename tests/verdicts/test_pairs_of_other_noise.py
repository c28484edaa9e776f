"""Pairs whose noise comes from families that no study of this repository draws from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from perfci.model import VerdictKind
from perfci.stats.location_shift import Shift, estimate_shift
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.comparison_rule import Rule

TRIALS = 250
LIMITS = DecisionLimits.from_rule(Rule())

Noise = Callable[[np.random.Generator, int], np.ndarray]
"""Log levels of one side, without its shift."""


def heavy_tails(rng: np.random.Generator, count: int) -> np.ndarray:
    return 0.012 * rng.standard_t(3, count)


def one_sided(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.gamma(1.5, 0.012, count)


def three_states(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(0, 0.004, count) + rng.choice([0.0, 0.05, 0.11], count, p=[0.6, 0.25, 0.15])


def laplace(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.laplace(0, 0.012, count)


def fine_ticks(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.log(np.round(200 * np.exp(rng.normal(0, 0.01, count))))


def coarse_ticks(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.log(np.round(15 * np.exp(rng.normal(0, 0.02, count))))


def compare_equal_sides(noise: Noise, pairs: int, head_spread: float = 1.0) -> list[Shift]:
    shifts = []
    for trial in range(TRIALS):
        rng = np.random.default_rng([31, pairs, trial])
        shifts.append(estimate_shift(noise(rng, pairs), head_spread * noise(rng, pairs)))
    return shifts


def covering_share(shifts: list[Shift]) -> float:
    return float(np.mean([shift.bounds()[0] <= 0 <= shift.bounds()[1] for shift in shifts]))


@pytest.mark.parametrize("pairs", [5, 12])
@pytest.mark.parametrize(
    "noise",
    [heavy_tails, one_sided, three_states, laplace, fine_ticks, coarse_ticks],
    ids=lambda f: f.__name__,
)
def test_intervals_cover_and_equal_sides_are_no_move(noise: Noise, pairs: int) -> None:
    shifts = compare_equal_sides(noise, pairs)

    kinds = [LIMITS.classify(shift) for shift in shifts]
    assert covering_share(shifts) >= 0.93
    assert sum(kind in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT) for kind in kinds) <= 0.02 * TRIALS


def test_intervals_cover_where_one_side_is_noisier() -> None:
    shifts = compare_equal_sides(lambda rng, count: rng.normal(0, 0.008, count), 8, head_spread=4.0)

    assert covering_share(shifts) >= 0.93


@pytest.mark.parametrize("pairs", [8, 15])
def test_a_broad_slow_state_that_comes_more_often_is_hardly_ever_unchanged(pairs: int) -> None:
    unchanged = 0
    for trial in range(TRIALS):
        rng = np.random.default_rng([32, pairs, trial])
        base, head = rng.normal(0, 0.008, (2, pairs))
        head += rng.uniform(0.15, 0.45, pairs) * (rng.random(pairs) < 0.4)
        unchanged += LIMITS.classify(estimate_shift(base, head)) is VerdictKind.UNCHANGED

    assert unchanged <= 0.04 * TRIALS
