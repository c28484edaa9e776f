"""Benchmarks that switch between two modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from perfci.model import Process, Role, Verdict, VerdictKind
from perfci.stats.location_shift import estimate_shift
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict
from perfci.verdicts.compare.reason_text import describe_modes
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
        "0.00 % over 10 pairs, interval −1.3 % to +3.5 %: inside the threshold of 5.0 % either way. "
        "3 of 10 base and 4 of 10 head processes were in the slow mode, 12.0 % apart; compared within modes, "
        "and the interval allows for a change in how often each is visited."
    )


def test_detects_a_slowdown_within_modes() -> None:
    verdict = judged(3, 4, by=1.08)

    assert (verdict.kind, round(verdict.ratio or 0, 2)) == (VerdictKind.REGRESSION, 1.08)
    assert verdict.reason.endswith("in the slow mode, 12.0 % apart; compared within modes.")


def test_reports_a_changed_mode_mix() -> None:
    verdict = judged(1, 9)

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.reason.endswith(
        "1 of 10 base and 9 of 10 head processes were in the slow mode, 12.0 % apart"
        ": chance hardly explains that, so the mix is part of the difference."
    )


@pytest.mark.parametrize(("slow_base", "slow_head"), [(2, 7), (1, 5), (0, 3), (0, 5)])
def test_a_more_frequent_slow_mode_is_never_unchanged(slow_base: int, slow_head: int) -> None:
    verdict = judged(slow_base, slow_head)

    assert verdict.kind is not VerdictKind.UNCHANGED
    assert verdict.interval is not None
    assert verdict.interval.hi > 1 + (SLOW - 1) * (slow_head - slow_base) / 10


def test_a_single_slow_process_may_be_the_first_of_a_mode() -> None:
    base, head = a_side(Role.BASE, 0), [*a_side(Role.HEAD, 0)[:9], a_process(1.5, role=Role.HEAD, pair=9)]

    verdict = confirmation_verdict(a_series(), "base", "head", base, head)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.reason.endswith(
        "1 of 20 processes was about 49.9 % from the others: an outlier or a second mode, which more pairs "
        "would show."
    )


def test_a_single_mode_is_not_mentioned() -> None:
    assert "mode" not in judged(0, 0).reason


@pytest.mark.parametrize(
    ("unit", "word"),
    [("seconds", "slow"), ("tokens/s", "slow"), ("ms", "slow"), ("bytes", "worse"), ("ratio", "worse")],
)
def test_names_the_upper_mode_by_its_unit(unit: str, word: str) -> None:
    side = np.array([0.0, 0.001, 0.002, 0.12, 0.121, 0.122])

    text = describe_modes(a_series(unit=unit), estimate_shift(side, side), VerdictKind.UNCHANGED)

    assert f"were in the {word} mode" in text
