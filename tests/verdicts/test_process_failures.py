"""Processes that fail on one side only are evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfci.model import Clock, Process, Status, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict, interim_analysis
from perfci.verdicts.compare.process_failures import explain_failed_head
from tests.support.builders import a_failed_process, a_process, a_series

TIME = a_series()


def a_side(failed: int = 0, total: int = 10, *, level: float = 1.0) -> list[Process]:
    """Quiet processes, of which the last ``failed`` ran out of memory."""
    levels = level * np.exp(np.random.default_rng(total).normal(0, 0.002, total))
    works = [a_process(float(value), float(value), pair=k) for k, value in enumerate(levels)]
    crashes = [
        a_failed_process(Status.OOM, reason="CUDA out of memory", pair=k)
        for k in range(total - failed, total)
    ]
    return [*works[: total - failed], *crashes]


def test_a_head_that_runs_out_of_memory_in_four_of_ten_processes_has_failed() -> None:
    look = interim_analysis(TIME, "base", "head", a_side(), a_side(4))

    assert (look.verdict.kind, look.pairs_to_buy) == (VerdictKind.FAILED, 0)
    assert look.verdict.reason == (
        "4 of 10 head processes ended as oom (CUDA out of memory), and no base process failed."
    )


def test_a_single_failure_of_the_head_is_neither_unchanged_nor_silent() -> None:
    look = interim_analysis(TIME, "base", "head", a_side(), a_side(1))

    assert (look.verdict.kind, look.pairs_to_buy) == (VerdictKind.INCONCLUSIVE, 0)
    assert look.verdict.reason.endswith(
        "But 1 of 10 head processes ended as oom (CUDA out of memory), too few to call it failed and too"
        " many to call it well: measure it again."
    )


def test_a_regression_stays_one_and_names_the_failure() -> None:
    verdict = confirmation_verdict(TIME, "base", "head", a_side(), a_side(1, level=1.2))

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.reason.endswith("But 1 of 10 head processes ended as oom (CUDA out of memory).")


@pytest.mark.parametrize(
    ("base", "head", "kind"),
    [
        (3, 3, VerdictKind.UNCHANGED),
        (3, 0, VerdictKind.UNCHANGED),
        (2, 4, VerdictKind.INCONCLUSIVE),
        (1, 6, VerdictKind.FAILED),
        (10, 10, VerdictKind.MISSING),
    ],
)
def test_failures_of_both_sides_are_compared(base: int, head: int, kind: VerdictKind) -> None:
    # without pairs, so that a failure of one side takes no process of the other
    sides = [
        [replace(process, pair=None, round=None) for process in a_side(failed)] for failed in (base, head)
    ]

    verdict = confirmation_verdict(TIME, "base", "head", *sides)

    assert verdict.kind is kind
    assert ("oom" in verdict.reason) is bool(base or head)


@pytest.mark.parametrize(
    ("base", "head", "total", "has_failed"),
    [
        (0, 1, 2, True),
        (0, 1, 3, False),
        (0, 2, 3, True),
        (0, 2, 10, True),
        (0, 2, 40, False),
        (0, 3, 40, True),
        (2, 3, 10, False),
    ],
)
def test_the_more_processes_the_more_failures_are_an_accident(
    base: int, head: int, total: int, has_failed: bool
) -> None:
    sentence = explain_failed_head(a_side(base, total), a_side(head, total))

    assert sentence.startswith(f"{head} of {total} head processes") if has_failed else not sentence


def test_exact_counts_with_a_failing_head_are_open_too() -> None:
    counts = [a_process(5.0, pair=k, clock=Clock.EXACT) for k in range(10)]

    verdict = confirmation_verdict(TIME, "base", "head", counts, [*counts[:9], *a_side(1)[9:]])

    assert verdict.kind is VerdictKind.INCONCLUSIVE
