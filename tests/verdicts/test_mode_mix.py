"""Benchmarks that switch between two modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from perfci.model import Process, Role, Verdict, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict
from perfci.verdicts.compare.reason_text import summarize_modes
from tests.support.builders import a_process, a_series

JITTER = (0.0, 0.002, -0.002, 0.001, -0.001, 0.003, -0.003, 0.0005, -0.0005, 0.0)
FAST, SLOW = 1.0, 1.12


def a_side(role: Role, slow: int, *, by: float = 1.0) -> Sequence[Process]:
    """Ten processes, so many of them in the slow mode."""
    levels = [(SLOW if k < slow else FAST) * by * (1 + share) for k, share in enumerate(JITTER)]
    spread_out = [levels[(3 * k) % 10] for k in range(10)]
    return [a_process(level, role=role, pair=k) for k, level in enumerate(spread_out)]


def judged(slow_base: int, slow_head: int, *, by: float = 1.0) -> Verdict:
    base, head = a_side(Role.BASE, slow_base), a_side(Role.HEAD, slow_head, by=by)
    return confirmation_verdict(a_series(), "base", "head", base, head)


def test_reports_the_mode_mix_and_compares_within_modes() -> None:
    verdict = judged(3, 4)

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.reason == (
        "-0.0% over 10 pairs, interval -0.2% to +0.2%: inside the bar of 5.0% either way. "
        "3 of 10 base and 4 of 10 head processes were in the slow mode, 12 % apart; compared within modes."
    )


def test_detects_a_slowdown_within_modes() -> None:
    verdict = judged(3, 4, by=1.08)

    assert (verdict.kind, round(verdict.ratio or 0, 2)) == (VerdictKind.REGRESSION, 1.08)
    assert verdict.reason.endswith("in the slow mode, 12 % apart; compared within modes.")


def test_reports_a_changed_mode_mix() -> None:
    verdict = judged(1, 9)

    assert verdict.kind is not VerdictKind.UNCHANGED
    assert verdict.reason.endswith(
        "1 of 10 base and 9 of 10 head processes were in the slow mode, 12 % apart"
        ": the mix changed, so the sides are compared as they are."
    )


def test_reports_a_mode_mix_that_may_have_changed() -> None:
    verdict = judged(2, 7)

    assert verdict.reason.endswith(
        "2 of 10 base and 7 of 10 head processes were in the slow mode, 12 % apart; compared within modes."
    )
    assert judged(1, 7).reason.endswith(
        "1 of 10 base and 7 of 10 head processes were in the slow mode, 12 % apart"
        ": the mix may have changed, and the interval allows for it."
    )


def test_a_single_mode_is_not_mentioned() -> None:
    assert "state" not in judged(0, 0).reason


@pytest.mark.parametrize(
    ("unit", "word"),
    [("seconds", "slow"), ("tokens/s", "slow"), ("ms", "slow"), ("bytes", "worse"), ("ratio", "worse")],
)
def test_names_the_upper_mode_by_its_unit(unit: str, word: str) -> None:
    side = np.array([0.0, 0.001, 0.002, 0.12, 0.121, 0.122])

    states = summarize_modes(a_series(unit=unit), side, side)

    assert states is not None
    assert states.upper_name == word
