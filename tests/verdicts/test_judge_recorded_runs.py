"""Comparison of two recorded runs: what is comparable, and how pairs are matched."""

from __future__ import annotations

from typing import Any

from perfci.model import Process, ProcessBoundaries, Result, Role, Run, Verdict, VerdictKind
from perfci.verdicts.compare.judge_recorded_runs import collect_recorded_series, judge_recorded_series
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import (
    a_commit,
    a_machine,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
    a_variant,
)

DRIFT = (0.0, 0.05, -0.05, 0.1, -0.1, 0.02, -0.02, 0.07)
"""What the machine does to both sides of a pair; far more than any change looked for."""


def side(level: float, role: Role = Role.HISTORY, *, paired: bool = True) -> list[Process]:
    noise = (0.001, -0.001, 0.002, -0.002)
    return [
        a_process(
            level * (1 + drift + noise[k % 4]), role=role, pair=k if paired else None, round=None, index=k
        )
        for k, drift in enumerate(DRIFT)
    ]


def compare(base: Result, head: Result, *, one_session: bool = True) -> Verdict:
    runs: list[Run] = [a_run(base), a_run(head, commit=a_commit(2))]
    sides = [collect_recorded_series([run]) for run in runs]
    (verdict,) = judge_recorded_series(
        sides[0], sides[1], (a_sha(1), a_sha(2)), Policy(), one_session=one_session
    )
    return verdict


def result(level: float, **changes: Any) -> Result:
    return a_result(a_series(), *side(level), **changes)


def test_pairs_of_one_session_cancel_machine_drift() -> None:
    verdict = compare(result(1.0), result(1.08))

    assert (verdict.kind, verdict.pairs) == (VerdictKind.REGRESSION, 8)


def test_equal_pair_numbers_of_two_sessions_are_no_pairs() -> None:
    verdict = compare(result(1.0), result(1.08), one_session=False)

    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_compares_sides_without_pair_numbers_unpaired() -> None:
    base, head = (a_result(a_series(), *side(level, paired=False)) for level in (1.0, 2.0))

    assert compare(base, head).kind is VerdictKind.REGRESSION


def test_pair_numbers_that_occur_twice_match_nothing() -> None:
    twice = a_result(a_series(), *side(1.0), *side(1.0))

    assert compare(twice, result(1.08)).kind is VerdictKind.INCONCLUSIVE


def test_pooled_samples_are_not_comparable() -> None:
    pooled = result(1.0, boundaries=ProcessBoundaries.POOLED)

    assert compare(pooled, result(1.08)).kind is VerdictKind.NOT_COMPARABLE


def test_states_why_two_sides_are_not_comparable() -> None:
    elsewhere = a_result(a_series(machine=a_machine("Intel Xeon")), *side(1.0))
    rewritten = a_result(a_series(version="2"), *side(1.0))
    summarised = a_result(a_series(), processes=(), summary=a_summary(1.0))

    verdicts = [compare(result(1.0), head) for head in (elsewhere, rewritten, summarised)]

    assert {verdict.kind for verdict in verdicts} == {VerdictKind.NOT_COMPARABLE}
    assert [verdict.reason for verdict in verdicts] == [
        "Measured on two machines: the base on AMD EPYC, 2 cores, 23 GB, the head on Intel Xeon, 2 "
        "cores, 23 GB.",
        "The benchmark itself differs: its version is not the same on both sides.",
        "Only a summary was recorded, so its processes cannot be compared.",
    ]


def test_two_environments_are_compared_where_that_is_what_differs() -> None:
    runs = [a_run(a_result(a_series(variant=a_variant(torch=t)), *side(1.0))) for t in ("2.9", "2.10")]

    apart, together = (
        [collect_recorded_series([run], by_variant=by) for run in runs] for by in (True, False)
    )

    assert apart[0].keys().isdisjoint(apart[1])
    (verdict,) = judge_recorded_series(*together, (a_sha(1), a_sha(1)), Policy(), one_session=True)
    assert verdict.kind is VerdictKind.UNCHANGED


def test_a_series_that_one_side_lacks_is_missing() -> None:
    alone = a_result(a_series("other.time_it"), *side(1.0))
    sides = (
        collect_recorded_series([a_run(result(1.0), alone)]),
        collect_recorded_series([a_run(result(1.0))]),
    )

    verdicts = judge_recorded_series(*sides, (a_sha(1), a_sha(2)), Policy(), one_session=True)

    assert [verdict.kind for verdict in verdicts] == [VerdictKind.UNCHANGED, VerdictKind.MISSING]
