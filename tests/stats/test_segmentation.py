"""Change points of a series of levels."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.stats.incremental_segmentation import detect_change_points_in_many
from perfci.stats.optimal_partitioning import EMPTY_PARTITION, extend_partitions
from perfci.stats.step_size import LevelStep

properties = settings(derandomize=True, deadline=None, max_examples=40)


def history(*levels: float, each: int = 30, noise: float = 0.01, seed: int = 1) -> list[float]:
    """Levels that follow each other, each so many points long, with lognormal noise."""
    rng = np.random.default_rng(seed)
    line = np.repeat(levels, each) * np.exp(rng.normal(0, noise, each * len(levels)))
    return [float(value) for value in line]


def detect_in_one(values: list[float], min_effect: float = 0.05) -> list[LevelStep]:
    return detect_change_points_in_many([values], min_effect)[0]


def test_finds_a_step_of_eight_percent_at_its_commit() -> None:
    (step,) = detect_in_one(history(1.0, 1.08))

    assert abs(step.index - 30) <= 1
    assert step.relative_change == pytest.approx(0.08, abs=0.02)


def test_finds_a_regression_that_is_reverted() -> None:
    change_points = detect_in_one(history(1.0, 1.2, 1.0, each=12))

    assert [step.index for step in change_points] == [12, 24]


def test_a_step_that_a_better_place_would_make_too_small_stays_where_it_was_found() -> None:
    noise = 0.03 * np.random.default_rng(0).standard_t(2, (816, 60))[-1]
    levels = np.exp(noise + 0.06 * (np.arange(60) >= 30))

    (step,) = detect_in_one(levels.tolist())

    # at the points beside it, where absolute distances are smaller, the levels are less than 5 % apart
    assert step.index == 31
    assert step.relative_change > 0.05


def test_reports_nothing_below_the_bar() -> None:
    assert detect_in_one(history(1.0, 1.03)) == []


def test_reports_every_step_at_a_bar_of_zero() -> None:
    assert len(detect_in_one(history(1.0, 1.03), min_effect=0.0)) == 1


@pytest.mark.parametrize("seed", range(10))
def test_a_series_without_change_has_no_change_point(seed: int) -> None:
    assert detect_in_one(history(1.0, each=150, noise=0.03, seed=seed)) == []


def test_spikes_are_no_level() -> None:
    line = history(1.0, each=100)
    for at in (20, 50, 51, 80):
        line[at] *= 1.6

    assert detect_in_one(line) == []


def test_spikes_do_not_hide_a_step() -> None:
    line = history(1.0, 1.08, each=50)
    for at in range(3, 100, 6):
        line[at] *= 1.5

    assert len(detect_in_one(line)) == 1


def test_spikes_before_a_step_do_not_move_it() -> None:
    line = history(1.0, 1.4, each=15, noise=0.01)
    line[11], line[12] = 1.2, 1.4

    assert [step.index for step in detect_in_one(line)] == [15]


def test_mode_switching_is_no_change_point() -> None:
    assert detect_in_one(history(*[1.0, 1.08] * 6, each=9)) == []


def test_random_modes_are_no_change_point() -> None:
    rng = np.random.default_rng(3)
    line = np.exp(rng.normal(0, 0.004, 150)) * np.where(rng.random(150) < 0.3, 1.07, 1.0)

    assert detect_in_one(line.tolist()) == []


def test_reports_a_clear_new_level_after_three_points() -> None:
    line = history(1.0, 1.2)

    assert detect_in_one(line[:32]) == []
    assert [step.index for step in detect_in_one(line[:33])] == [30]


def test_fewer_than_eight_points_get_no_verdict() -> None:
    assert detect_in_one([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]) == []
    assert detect_in_one([]) == []
    assert detect_in_one([1.0]) == []


def test_a_constant_series_with_one_exact_step_has_one_change_point() -> None:
    assert detect_in_one([3.0] * 40) == []
    assert [step.index for step in detect_in_one([100.0] * 20 + [108.0] * 20)] == [20]


def test_accepts_zeros_which_have_no_logarithm() -> None:
    assert detect_in_one([0.0] * 20) == []
    assert [step.index for step in detect_in_one([0.0] * 20 + [4.0] * 20, 0.0)] == [20]


def test_many_series_at_once_give_the_results_of_each_alone() -> None:
    lines = [history(1.0, 1.0 + step / 100, each=10 + step, seed=step) for step in range(30)]

    assert detect_change_points_in_many(lines) == [detect_in_one(line) for line in lines]


def test_segmentation_is_the_best_of_all_partitions() -> None:
    rng = np.random.default_rng(4)
    line = np.concatenate([rng.normal(0, 1, 7), rng.normal(6, 1, 6)])

    def cost(cut: int) -> float:
        parts = np.split(line, [cut])
        return sum(float(((part - part.mean()) ** 2).sum()) for part in parts)

    (partition,) = extend_partitions([EMPTY_PARTITION], [line])

    assert partition.boundaries == [min(range(3, 11), key=cost)]


@properties
@given(st.integers(0, 10_000), st.floats(1e-6, 1e6))
def test_the_unit_does_not_matter(seed: int, unit: float) -> None:
    line = history(1.0, 1.1, 0.97, each=20, noise=0.02, seed=seed)

    assert [step.index for step in detect_in_one([unit * value for value in line])] == [
        step.index for step in detect_in_one(line)
    ]


@properties
@given(st.integers(0, 10_000))
def test_finds_improvements_and_regressions_alike(seed: int) -> None:
    line = history(1.0, 1.1, each=25, noise=0.02, seed=seed)

    worse, better = detect_in_one(line), detect_in_one([1 / value for value in line])

    assert [(step.index, pytest.approx(1 / (1 + step.relative_change) - 1)) for step in worse] == [
        (step.index, step.relative_change) for step in better
    ]


@properties
@given(st.integers(0, 10_000))
def test_finds_a_clear_step_in_a_reversed_series(seed: int) -> None:
    line = history(1.0, 1.2, each=30, noise=0.01, seed=seed)

    assert (
        [step.index for step in detect_in_one(line)]
        == [len(line) - step.index for step in detect_in_one(line[::-1])]
        == [30]
    )


@properties
@given(st.floats(1e-9, 1e9), st.integers(1, 60), st.sampled_from([0.0, 0.05]))
def test_a_constant_series_has_no_change_point(value: float, points: int, bar: float) -> None:
    assert detect_in_one([value] * points, bar) == []


@properties
@given(st.integers(0, 10_000), st.integers(20, 100))
def test_a_coarse_clock_makes_no_change_points(seed: int, points: int) -> None:
    """Few different values, most of them tied."""
    line = 1 + np.round(np.random.default_rng(seed).normal(0, 1, points)) / 100

    assert detect_in_one(line.tolist()) == []


def test_three_high_points_in_a_short_series_are_no_change_point() -> None:
    """Of eight points any three are the highest once in 56 times; of twenty, once in more than a thousand."""
    high = [1.2, 1.21, 1.2]

    assert detect_in_one([*history(1.0, each=5), *high]) == []
    assert [step.index for step in detect_in_one([*history(1.0, each=17), *high])] == [17]


def test_a_step_reverted_at_once_is_a_spike() -> None:
    brief, longer = (
        history(1.0, each=25) + [1.2] * points + history(1.0, each=25, seed=2) for points in (3, 4)
    )

    assert detect_in_one(brief) == []
    assert [step.index for step in detect_in_one(longer)] == [25, 29]
