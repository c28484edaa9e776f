"""The size of a step: the levels next to the boundary and the 95 % interval of their difference."""

import math

import numpy as np
import pytest

from perfci.stats.incremental_segmentation import detect_change_points_in_many
from perfci.stats.step_size import LevelStep, estimate_level_step
from tools.study_step_size import NOISE_MODELS, simulate_coverage


def test_the_levels_are_the_medians_of_both_sides() -> None:
    step = estimate_level_step(3, np.log([1.0, 2.0, 1.0]), np.log([3.0, 3.0, 9.0, 3.0]))

    assert (step.before, step.after) == pytest.approx((1.0, 3.0))
    assert step.relative_change == pytest.approx(2.0)


def test_the_levels_are_those_next_to_the_boundary() -> None:
    """Both levels creep by 6 %: the medians of the whole segments are 6 % further apart than the step."""
    rng = np.random.default_rng(3)
    line = 1.001 ** np.arange(120) * np.repeat([1.0, 1.3], 60) * np.exp(rng.normal(0, 0.004, 120))

    (step,) = detect_change_points_in_many([line])[0]

    assert step.relative_change == pytest.approx(0.3, abs=0.025)
    assert step.lower is not None
    assert step.upper is not None
    assert step.lower < step.relative_change < step.upper


@pytest.mark.parametrize("noise", NOISE_MODELS)
@pytest.mark.parametrize("sides", [(5, 5), (5, 40), (15, 15), (40, 40)])
def test_nineteen_of_twenty_intervals_hold_the_true_size(noise: str, sides: tuple[int, int]) -> None:
    """A quick form of ``tools.study_step_size``: 93 to 98 %, and three standard errors of 600 runs."""
    rng = np.random.default_rng(sum(sides))

    covered = simulate_coverage(NOISE_MODELS[noise], sides, 0.02, 600, rng)

    error = 3 * math.sqrt(0.05 * 0.95 / 600)
    assert 0.93 - error < covered < 0.98 + error


def test_a_scale_of_all_values_changes_no_interval() -> None:
    rng = np.random.default_rng(1)
    before, after = rng.normal(0, 0.02, 12), rng.normal(0.1, 0.02, 9)

    step = estimate_level_step(12, before, after)
    shifted = estimate_level_step(12, before + 5, after + 5)

    assert shifted.before == pytest.approx(step.before * math.exp(5))
    assert (shifted.lower, shifted.upper) == pytest.approx((step.lower, step.upper))


def test_more_points_give_a_narrower_interval() -> None:
    rng = np.random.default_rng(2)
    logs = rng.normal(0, 0.02, 80)
    logs[40:] += 0.1

    few, many = (estimate_level_step(40, logs[40 - count : 40], logs[40 : 40 + count]) for count in (5, 40))

    assert many.upper - many.lower < 0.5 * (few.upper - few.lower)  # type: ignore[operator]


def test_equal_points_are_as_sure_as_the_finest_clock() -> None:
    step = estimate_level_step(20, np.zeros(20), np.full(20, 0.1))

    assert step.lower is not None
    assert step.upper is not None
    assert 1e-4 < step.upper - step.lower < 5e-3


def test_levels_of_zero_have_a_direction_but_no_interval() -> None:
    step = estimate_level_step(2, np.array([0.0, 0.0]), np.array([2.0, 2.0]), scale=0.5)

    assert step == LevelStep(2, 0.0, 1.0, 2.0)
    assert step.relative_change == 1.0
