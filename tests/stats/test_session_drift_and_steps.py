"""Sessions measured in rounds: machine drift removed, and steps of the level of commits."""

import math

import numpy as np
import pytest

from perfci.stats.commit_level_steps import (
    estimate_commit_levels,
    find_likely_step_positions,
    segment_commit_levels,
)
from perfci.stats.session_drift import (
    DriftCorrectedValues,
    correct_session_drift,
    mean_of_time_neighbours,
    weighted_huber_location,
)


def rounds_of(levels: list[float], rounds: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two series over the same commits in random order; for stretches of time the machine is 30 % slower."""
    rng = np.random.default_rng(seed)
    cells = np.concatenate([rng.permutation(2 * len(levels)) for _ in range(rounds)])
    slow = np.repeat(rng.random(len(cells) // 20 + 1) < 0.4, 20)[: len(cells)]
    values = (
        np.array(levels)[cells % len(levels)]
        + rng.normal(0, 0.01, len(cells))
        + slow * rng.uniform(0.1, 0.5, len(cells))
    )
    return values, cells, cells // len(levels)


def test_removes_machine_drift_and_keeps_levels() -> None:
    levels = [0.0] * 10 + [0.1] * 10
    values, cells, kinds = rounds_of(levels, rounds=5)

    calm = correct_session_drift(values, cells, kinds)

    step = np.median(calm.values[cells % 20 >= 10]) - np.median(calm.values[cells % 20 < 10])
    rest = calm.values - np.array(levels)[cells % 20]
    assert step == pytest.approx(0.1, abs=0.02)
    assert rest.std() < 0.6 * (values - np.array(levels)[cells % 20]).std()


def test_values_measured_on_a_calm_machine_get_smaller_errors() -> None:
    values, cells, kinds = rounds_of([0.0] * 20, rounds=5)

    calm = correct_session_drift(values, cells, kinds)

    assert calm.sds[values > 0.15].mean() > 1.5 * calm.sds[values < 0.05].mean()


def test_a_quiet_machine_is_left_alone() -> None:
    rng = np.random.default_rng(2)
    cells = np.concatenate([rng.permutation(20) for _ in range(5)])
    values = rng.normal(0, 0.01, 100)

    calm = correct_session_drift(values, cells, np.zeros(100, dtype=np.int64))

    assert calm.sds == pytest.approx(np.full(100, 0.01), rel=0.3)
    assert np.abs(calm.values - values).max() < 0.01


def test_no_value_estimates_its_own_drift() -> None:
    shared = mean_of_time_neighbours(np.array([0.0, 9.0, 0.0]), np.array([0, 1, 2]), reach=1)

    assert shared.tolist() == [9.0, 0.0, 9.0]


def test_a_level_follows_its_most_precise_values() -> None:
    level = weighted_huber_location(np.array([1.0, 1.01, 3.0]), np.array([0.01, 0.01, 2.0]))

    assert level == pytest.approx(1.005, abs=0.005)


def steps(levels: list[float], error: float = 0.01) -> list[DriftCorrectedValues]:
    """Four exact-looking values per commit, each as uncertain as told."""
    return [DriftCorrectedValues(np.full(4, level), np.full(4, 2 * error)) for level in levels]


def test_a_step_is_measured_between_up_to_three_commits_a_side() -> None:
    (move,) = segment_commit_levels(estimate_commit_levels(steps([0.0] * 6 + [0.1] * 6)), penalty=4.0)

    assert (move.index, move.start, move.end) == (6, 0, 12)
    assert move.size == pytest.approx(0.1)
    assert move.sigmas == pytest.approx(0.1 / (0.01 * math.sqrt(4 / 3) * math.sqrt(2 / 3)), rel=0.01)


def test_a_regression_reverted_three_commits_later_is_two_steps() -> None:
    commit_levels = segment_commit_levels(
        estimate_commit_levels(steps([0.0] * 6 + [0.1] * 3 + [0.0] * 6)), penalty=4.0
    )

    assert [move.index for move in commit_levels] == [6, 9]


def test_a_position_that_fits_nearly_as_well_is_an_alternative() -> None:
    between = estimate_commit_levels(steps([0.0] * 5 + [0.048] + [0.1] * 5, error=0.02))
    clear = estimate_commit_levels(steps([0.0] * 5 + [0.1] * 5, error=0.005))

    assert [
        rival.index
        for rival in find_likely_step_positions(between, segment_commit_levels(between, penalty=4.0)[0])
    ] in ([5], [6])
    assert find_likely_step_positions(clear, segment_commit_levels(clear, penalty=4.0)[0]) == []


def test_skips_commits_that_were_not_measured() -> None:
    line = steps([0.0] * 4 + [0.1] * 4)
    line[4] = DriftCorrectedValues(np.empty(0), np.empty(0))

    assert [move.index for move in segment_commit_levels(estimate_commit_levels(line), penalty=4.0)] == [5]


def test_too_few_commits_have_no_steps() -> None:
    assert segment_commit_levels(estimate_commit_levels(steps([0.0])), penalty=4.0) == []
    assert (
        segment_commit_levels(
            estimate_commit_levels([DriftCorrectedValues(np.empty(0), np.empty(0))] * 3), penalty=4.0
        )
        == []
    )
