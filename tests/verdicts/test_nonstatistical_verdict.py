"""Verdicts that need no statistics: what is missing, failed, counted exactly or has no ratio."""

import numpy as np
import pytest

from perfci.model import Clock, Interval, Process, ProcessBoundaries, Status, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict, interim_analysis, screening_verdict
from tests.support.builders import a_failed_process, a_process, a_series

TIME = a_series()


def side(
    level: float, pairs: int = 8, *, sd: float = 0.01, seed: int = 0, clock: Clock = Clock.WALL
) -> list[Process]:
    """One process of five samples per pair, lognormal between processes."""
    rng = np.random.default_rng([seed, pairs, int(1000 * level)])
    levels = level * np.exp(rng.normal(0, sd, pairs))
    return [
        a_process(*(float(v * f) for f in (0.99, 1.0, 1.01)), pair=k, clock=clock)
        for k, v in enumerate(levels)
    ]


def exact(*values: float) -> list[Process]:
    return [a_process(value, clock=Clock.EXACT, pair=k) for k, value in enumerate(values)]


def test_exact_counts_are_compared_exactly() -> None:
    equal = screening_verdict(TIME, "base", "head", exact(600, 600), exact(600))
    more = screening_verdict(TIME, "base", "head", exact(600), exact(660))
    little_more = screening_verdict(TIME, "base", "head", exact(600), exact(601))
    fewer = screening_verdict(TIME, "base", "head", exact(600), exact(300))

    assert (equal.kind, equal.interval, equal.noise_floor) == (VerdictKind.UNCHANGED, Interval(1.0, 1.0), 0.0)
    assert (more.kind, more.ratio) == (VerdictKind.REGRESSION, pytest.approx(1.1))
    assert (little_more.kind, little_more.reason) == (
        VerdictKind.UNCHANGED,
        "Counted exactly: 600 became 601 (+0.2 %), below the threshold of 5.0 %.",
    )
    assert fewer.kind is VerdictKind.IMPROVEMENT


def test_exact_counts_also_state_what_was_left_out() -> None:
    throttled = a_process(5.0, clock=Clock.EXACT, pair=2, flags=("throttled: hot",))

    verdict = screening_verdict(TIME, "base", "head", exact(5, 5, 5), [*exact(5, 5), throttled])

    assert verdict.reason == "Exactly 5 on both sides. Not judged: 1 of 6 processes, flagged throttled: hot."


def test_a_count_that_appears_or_vanishes_has_no_ratio() -> None:
    appears = screening_verdict(TIME, "base", "head", exact(0), exact(3))
    vanishes = screening_verdict(TIME, "base", "head", exact(3), exact(0))
    never = screening_verdict(TIME, "base", "head", exact(0), exact(0))

    assert (appears.kind, appears.ratio) == (VerdictKind.REGRESSION, None)
    assert appears.reason == "Counted exactly: 0 became 3, which no ratio expresses."
    assert (vanishes.kind, vanishes.ratio) == (VerdictKind.IMPROVEMENT, 0.0)
    assert never.kind is VerdictKind.UNCHANGED


def test_counts_that_vary_between_processes_are_no_exact_counts() -> None:
    verdict = screening_verdict(
        TIME, "base", "head", exact(600, 610, 605, 602, 598), exact(603, 599, 608, 601, 607)
    )

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.pairs == 5
    assert verdict.interval != Interval(1.0, 1.0)


def test_levels_of_zero_have_no_ratio_and_are_not_comparable() -> None:
    zeros = [a_process(0.0, pair=k) for k in range(5)]

    assert screening_verdict(TIME, "base", "head", zeros, side(1.0, 5)).kind is VerdictKind.NOT_COMPARABLE
    assert screening_verdict(TIME, "base", "head", zeros, zeros).kind is VerdictKind.UNCHANGED


def test_a_head_that_crashes_where_the_base_works_has_failed() -> None:
    verdict = confirmation_verdict(
        TIME, "base", "head", side(1.0), [a_failed_process(Status.OOM, reason="CUDA out of memory")] * 8
    )

    assert verdict.kind is VerdictKind.FAILED
    assert verdict.reason == "The base works and the head ended as oom (CUDA out of memory)."


@pytest.mark.parametrize(
    ("base", "head", "reason"),
    [
        ([], side(1.0), "the base was not measured"),
        (side(1.0), [], "the head was not measured"),
        ([a_failed_process()], side(1.0), "the base ended as failed (ValueError: no such layer)"),
        (side(1.0), [a_failed_process(Status.SKIPPED, reason="no GPU")], "the head was skipped (no GPU)"),
        ([a_process(pair=1)], [a_process(pair=2)], "no pair has both its processes"),
    ],
)
def test_nothing_on_one_side_is_missing(base: list[Process], head: list[Process], reason: str) -> None:
    verdict = screening_verdict(TIME, "base", "head", base, head)

    assert verdict.kind is VerdictKind.MISSING
    assert verdict.reason == f"There is nothing to compare: {reason}."


def test_a_missing_verdict_keeps_the_level_of_the_side_that_has_one() -> None:
    dropped, new = (
        screening_verdict(TIME, "b", "h", side(1.0), []),
        screening_verdict(TIME, "b", "h", [], side(1.0)),
    )

    assert (dropped.base_level is None, dropped.head_level is None) == (False, True)
    assert (new.base_level is None, new.head_level is None) == (True, False)


@pytest.mark.parametrize(
    ("base", "head", "left_out"),
    [
        (
            side(1.0, 2),
            [a_process(pair=0, flags=("throttled: 1 of 8 blocks",))],
            "1 of 3 processes, flagged throttled",
        ),
        (
            [a_process(pair=0, flags=("shared_gpu",)), a_process(pair=1)],
            [a_process(pair=0), a_process(pair=1, flags=("throttled: hot",))],
            "2 of 4 processes, flagged shared_gpu; throttled: hot",
        ),
    ],
)
def test_a_side_with_only_flagged_processes_is_inconclusive(
    base: list[Process], head: list[Process], left_out: str
) -> None:
    verdict = screening_verdict(TIME, "base", "head", base, head)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.reason.startswith(f"There is nothing to judge: {left_out}")


def test_a_head_that_fails_has_failed_however_hot_the_base_ran() -> None:
    verdict = screening_verdict(TIME, "base", "head", [a_process(flags=("throttled",))], [a_failed_process()])

    assert verdict.kind is VerdictKind.FAILED


def test_samples_without_process_boundaries_are_not_comparable() -> None:
    verdict = confirmation_verdict(
        TIME, "base", "head", side(1.0), side(1.2), boundaries=ProcessBoundaries.POOLED
    )

    assert verdict.kind is VerdictKind.NOT_COMPARABLE


def test_exact_and_incomparable_verdicts_need_no_more_pairs() -> None:
    assert interim_analysis(TIME, "base", "head", exact(5), exact(6)).pairs_to_buy == 0
    assert interim_analysis(TIME, "base", "head", side(1.0), []).pairs_to_buy == 0
