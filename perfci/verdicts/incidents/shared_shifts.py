"""Shifts that no code explains: those a canary shares, those most unrelated benchmarks share, and bad days."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from perfci.model import IncidentKind, Machine
from perfci.verdicts.incidents.bad_sessions import SessionAlert, find_bad_sessions
from perfci.verdicts.incidents.step_causes import (
    CODE_CAUSE,
    ExplainedStep,
    HistoryContext,
    SessionVisit,
    StepCause,
)

MAX_LOG_RATIO = math.log(2)
"""Shifts up to a factor of two apart are alike: of a larger one more would be left than the shared shift explains."""

MIN_UNRELATED_SUITES = 3
"""Two suites may share the code that got slower; that three or more do, and most of the machine's series in the same
unit, at the same moment and by the same size, is what a machine does."""

StepsByCause = list[tuple[StepCause, list[ExplainedStep]]]


def blame_bad_sessions(steps: Sequence[ExplainedStep], context: HistoryContext) -> list[ExplainedStep]:
    """Give what stood out in a session that had something the matter with its machine that cause.

    A level that later sessions saw as well is no matter of a day.
    """
    visits = [_find_blamable_session(move, context) for move in steps]
    alerts = [
        SessionAlert(move.change.series, visit.session, move.log_cost > 0)
        for move, visit in zip(steps, visits, strict=True)
        if visit
    ]
    suites: dict[tuple[str, Machine], set[str]] = defaultdict(set)
    for alert in alerts:
        suites[alert.session, alert.series.machine].add(get_suite_name(alert.series.benchmark.name))
    bad = {(day.session, day.machine) for day in find_bad_sessions(alerts)}
    bad = {place for place in bad if len(suites[place]) >= MIN_UNRELATED_SUITES}
    return [
        replace(move, cause=StepCause(IncidentKind.MACHINE, "bad day", session=visit.session))
        if visit and (visit.session, move.change.series.machine) in bad
        else move
        for move, visit in zip(steps, visits, strict=True)
    ]


def _find_blamable_session(step: ExplainedStep, context: HistoryContext) -> SessionVisit | None:
    """The session whose machine may be to blame for a step; None where code, or more than one session, is."""
    visit = context.first_visit(step.change) if _may_be_machine(step, context) else None
    return visit if visit and context.is_seen_only_in(step, visit) else None


def split_shared_steps(steps: Sequence[ExplainedStep], context: HistoryContext) -> StepsByCause:
    """Part one group of steps into what its machines share, and what is left for the code."""
    parts: StepsByCause = []
    left = list(steps)
    for machine in sorted({move.change.series.machine for move in steps}, key=repr):
        for unit in sorted({move.change.series.metric.unit for move in steps}):
            mine = [
                m for m in left if m.change.series.machine == machine and m.change.series.metric.unit == unit
            ]
            word, alike = _match_canary(mine, context) or _match_majority(
                mine, context, context.series_counts.get((machine, unit), 0)
            )
            if alike:
                parts.append((StepCause(IncidentKind.MACHINE, word), alike))
                left = [move for move in left if not any(move is one for one in alike)]
    return [*parts, (CODE_CAUSE, left)] if left else parts


def _match_canary(
    steps: Sequence[ExplainedStep], context: HistoryContext
) -> tuple[str, list[ExplainedStep]] | None:
    """What moved as a canary did, which no commit touches; the canary itself is the machine's anyway."""
    canaries = [move for move in steps if context.is_canary(move.change.series)]
    if not canaries:
        return None
    size = statistics.median(move.log_cost for move in canaries)
    alike = [
        m for m in steps if m in canaries or (_may_be_machine(m, context) and _is_similar(m.log_cost, size))
    ]
    return "canary", alike


def _match_majority(
    steps: Sequence[ExplainedStep], context: HistoryContext, series_count: int
) -> tuple[str, list[ExplainedStep]]:
    """What most series of a machine did alike, in suites that have nothing to do with each other."""
    able = [move for move in steps if _may_be_machine(move, context) and math.isfinite(move.log_cost)]
    if not able:
        return "", []
    size = statistics.median(move.log_cost for move in able)
    alike = [move for move in able if _is_similar(move.log_cost, size)]
    suites = {get_suite_name(move.change.series.benchmark.name) for move in alike}
    return (
        ("most", alike)
        if len(suites) >= MIN_UNRELATED_SUITES and 2 * len(alike) > series_count > 0
        else ("", [])
    )


def _may_be_machine(step: ExplainedStep, context: HistoryContext) -> bool:
    """Not what fresh pairs confirmed, what counts exactly, or what was measured in rounds with the commit before."""
    return (
        step.cause == CODE_CAUSE
        and not step.is_confirmed
        and not step.is_exact
        and context.is_measured_apart(step.change)
    )


def _is_similar(first: float, second: float) -> bool:
    alike = first * second > 0 and math.isfinite(first) and math.isfinite(second)
    return alike and abs(math.log(first / second)) <= MAX_LOG_RATIO


def get_suite_name(benchmark: str) -> str:
    """The file a benchmark comes from: ``training`` of ``training.Step.time_step``."""
    return benchmark.partition(".")[0]
