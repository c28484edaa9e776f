"""Quantile shift curves: which part of the samples moved, and how often the band holds the truth."""

from __future__ import annotations

import numpy as np
import pytest

from perfci.model import Clock, Process, Role
from perfci.report.quantile_shift_text import format_quantile_shifts
from perfci.verdicts.compare.quantile_shift_curve import QUANTILES, estimate_quantile_shifts
from tests.support.builders import a_series


def processes(role: Role, samples: np.ndarray, clock: Clock = Clock.CPU) -> list[Process]:
    """One process for each row of samples."""
    return [
        Process(index=pair, role=role, samples=tuple(row), clock=clock, pair=pair)
        for pair, row in enumerate(samples)
    ]


def drawn(seed: int, pairs: int = 8, samples: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Two sides of one distribution, each pair on a machine of its own speed."""
    dice = np.random.default_rng(seed)
    machine = np.exp(0.1 * dice.standard_normal((pairs, 1)))
    sides = np.exp(0.05 * dice.standard_normal((2, pairs, samples)))
    return machine * sides[0], machine * sides[1]


def test_a_slow_part_shows_on_the_right_of_the_curve_alone() -> None:
    base, head = drawn(1)
    slowest = head > np.quantile(head, 0.8, axis=1, keepdims=True)

    curve = estimate_quantile_shifts(
        a_series(), processes(Role.BASE, base), processes(Role.HEAD, np.where(slowest, 1.5 * head, head))
    )

    assert curve is not None
    shifts = {shift.quantile: shift for shift in curve.shifts}
    assert shifts[0.9].interval.lo > 1.2
    assert all(abs(shifts[quantile].ratio - 1) < 0.05 for quantile in QUANTILES[:6])
    text = format_quantile_shifts([curve])
    assert text.splitlines()[0].split()[-2:] == ["p80", "p90"]
    assert text.splitlines()[1].rstrip().endswith("*")


def test_a_common_factor_moves_every_quantile_alike() -> None:
    base, _ = drawn(2)

    curve = estimate_quantile_shifts(a_series(), processes(Role.BASE, base), processes(Role.HEAD, 1.2 * base))

    assert curve is not None
    assert [shift.ratio for shift in curve.shifts] == pytest.approx([1.2] * 9)


def test_all_intervals_together_hold_the_truth_at_their_rate() -> None:
    held = 0
    for seed in range(200):
        base, head = drawn(seed, pairs=8, samples=20)
        curve = estimate_quantile_shifts(a_series(), processes(Role.BASE, base), processes(Role.HEAD, head))
        assert curve is not None
        held += all(shift.interval.lo <= 1 <= shift.interval.hi for shift in curve.shifts)

    assert held / 200 >= 0.93


@pytest.mark.parametrize(
    ("pairs", "samples", "clock"), [(1, 40, Clock.CPU), (8, 9, Clock.CPU), (8, 40, Clock.EXACT)]
)
def test_there_is_no_curve_of_too_little_or_of_counts(pairs: int, samples: int, clock: Clock) -> None:
    base, head = drawn(3, pairs, samples)

    assert (
        estimate_quantile_shifts(
            a_series(), processes(Role.BASE, base, clock), processes(Role.HEAD, head, clock)
        )
        is None
    )
    assert format_quantile_shifts([]).startswith("quantile shifts: no metric has ten samples")
