"""The shift of a mean over runs: right on average, and an interval that holds as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from perfci.stats.mean_of_runs import MeanShift, RunMeans, estimate_mean_shift


def test_weighs_groups_by_their_series() -> None:
    groups = [RunMeans("a", 3, [0.0, 0.0], [0.4, 0.4]), RunMeans("b", 1, [1.0, 1.0], [1.0, 1.0])]

    assert estimate_mean_shift(groups) == MeanShift(
        pytest.approx(0.3), pytest.approx(0.3), pytest.approx(0.3)
    )


def test_one_run_on_a_side_has_no_interval() -> None:
    assert estimate_mean_shift([RunMeans("a", 2, [0.0], [0.1, 0.3])]) == MeanShift(pytest.approx(0.2))
    assert estimate_mean_shift([]) is None


def test_errors_of_one_machine_add_and_those_of_several_are_independent() -> None:
    sides = [0.0, 0.02], [0.1, 0.12]

    same, apart = (
        estimate_mean_shift([RunMeans("a", 1, *sides), RunMeans(second, 1, *sides)]) for second in ("a", "b")
    )

    assert same is not None
    assert apart is not None
    assert same.hi is not None
    assert apart.hi is not None
    half = (same.hi - same.log_ratio, apart.hi - apart.log_ratio)
    assert half[0] == pytest.approx(half[1] * 2**0.5)


def test_the_interval_holds_for_equal_code_on_drifting_machines() -> None:
    """Each run shifts all series together, which an interval from single series would miss."""
    noise = np.random.default_rng(11)
    held = 0
    for _ in range(400):
        groups = [
            RunMeans(machine, 50, noise.normal(0, 0.03, 5).tolist(), noise.normal(0, 0.03, 5).tolist())
            for machine in ("a", "b")
        ]
        shift = estimate_mean_shift(groups)
        assert shift is not None
        assert shift.lo is not None
        assert shift.hi is not None
        held += shift.lo <= 0 <= shift.hi

    assert held >= 0.93 * 400
