"""The tail of the samples beside their median."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfci.model import Clock, Process, Role, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import interim_analysis
from perfci.verdicts.compare.tail_shift import estimate_tail_shift
from tests.support.builders import a_process, a_series

TIME = a_series()
SAMPLES = 20


def a_side(seed: int, *, slow_share: float, role: Role = Role.BASE, pairs: int = 8) -> list[Process]:
    """Processes of which some samples take half as long again."""
    rng = np.random.default_rng(seed)
    processes = []
    for k in range(pairs):
        is_slow = rng.permutation(SAMPLES) < round(slow_share * SAMPLES)
        samples = np.exp(rng.normal(0, 0.01, SAMPLES)) * np.where(is_slow, 1.5, 1.0)
        processes.append(a_process(*samples, pair=k, role=role))
    return processes


def test_the_reason_says_that_the_tail_moved_and_the_median_did_not() -> None:
    look = interim_analysis(
        TIME, "base", "head", a_side(1, slow_share=0.0), a_side(2, slow_share=0.2, role=Role.HEAD)
    )

    assert look.verdict.kind is VerdictKind.UNCHANGED
    assert "The tail got worse although the median did not: p90 +4" in look.verdict.reason
    assert look.tail_shift is not None
    assert look.tail_shift.centre == pytest.approx(math.log(1.5), abs=0.03)


def test_a_tail_that_moves_with_the_median_is_not_mentioned() -> None:
    base = a_side(1, slow_share=0.0)
    head = [a_process(*(1.3 * sample for sample in process.samples), pair=process.pair) for process in base]

    look = interim_analysis(TIME, "base", "head", base, head)

    assert look.verdict.kind is VerdictKind.REGRESSION
    assert "tail" not in look.verdict.reason


def test_equal_tails_are_rarely_called_moved() -> None:
    reasons = []
    for k in range(60):
        base, head = a_side(k, slow_share=0.1), a_side(k + 500, slow_share=0.1)
        reasons.append(interim_analysis(TIME, "a", "b", base, head).verdict.reason)

    assert sum("tail got" in reason for reason in reasons) <= 1


def test_the_tail_needs_ten_samples_and_a_clock() -> None:
    few = [a_process(1.0, 1.1, 1.2, pair=k) for k in range(5)]
    exact = [a_process(*([7.0] * 12), pair=k, clock=Clock.EXACT) for k in range(5)]

    assert estimate_tail_shift(TIME, few, few) is None
    assert estimate_tail_shift(TIME, exact, exact) is None
