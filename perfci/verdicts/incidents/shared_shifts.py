"""Shifts that no code explains: those a canary shares, those most unrelated benchmarks share, and bad days."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from perfci.model import IncidentKind, Machine
from perfci.verdicts.incidents.bad_sessions import SessionJump, find_bad_sessions
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
    visits = [_find_blamable_session(step, context) for step in steps]
    jumps = [
        SessionJump(step.change.series, visit.session, step.log_cost > 0)
        for step, visit in zip(steps, visits, strict=True)
        if visit
    ]
    suites: dict[tuple[str, Machine], set[str]] = defaultdict(set)
    for jump in jumps:
        suites[jump.session, jump.series.machine].add(get_suite_name(jump.series.benchmark.name))
    bad_sessions = {(session.session, session.machine) for session in find_bad_sessions(jumps)}
    bad_sessions = {key for key in bad_sessions if len(suites[key]) >= MIN_UNRELATED_SUITES}
    return [
        replace(step, cause=StepCause(IncidentKind.MACHINE, "bad_session", session=visit.session))
        if visit and (visit.session, step.change.series.machine) in bad_sessions
        else step
        for step, visit in zip(steps, visits, strict=True)
    ]


def _find_blamable_session(step: ExplainedStep, context: HistoryContext) -> SessionVisit | None:
    """The session whose machine may be to blame for a step; None where code, or more than one session, is."""
    visit = context.first_visit(step.change) if _may_be_machine(step, context) else None
    return visit if visit and context.is_seen_only_in(step, visit) else None


def split_shared_steps(steps: Sequence[ExplainedStep], context: HistoryContext) -> StepsByCause:
    """Part one group of steps into what its machines share, and what is left for the code."""
    parts: StepsByCause = []
    remaining = list(steps)
    for machine in sorted({step.change.series.machine for step in steps}, key=repr):
        for unit in sorted({step.change.series.metric.unit for step in steps}):
            candidates = [
                step
                for step in remaining
                if step.change.series.machine == machine and step.change.series.metric.unit == unit
            ]
            cause_name, shared = _match_canary(candidates, context) or _match_majority(
                candidates, context, context.series_counts.get((machine, unit), 0)
            )
            if shared:
                parts.append((StepCause(IncidentKind.MACHINE, cause_name), shared))
                remaining = [
                    step for step in remaining if not any(step is shared_step for shared_step in shared)
                ]
    return [*parts, (CODE_CAUSE, remaining)] if remaining else parts


def _match_canary(
    steps: Sequence[ExplainedStep], context: HistoryContext
) -> tuple[str, list[ExplainedStep]] | None:
    """What moved as a canary did, which no commit touches; the canary itself is the machine's anyway."""
    canaries = [step for step in steps if context.is_canary(step.change.series)]
    if not canaries:
        return None
    size = statistics.median(step.log_cost for step in canaries)
    similar = [
        step
        for step in steps
        if step in canaries or (_may_be_machine(step, context) and _is_similar(step.log_cost, size))
    ]
    return "canary", similar


def _match_majority(
    steps: Sequence[ExplainedStep], context: HistoryContext, series_count: int
) -> tuple[str, list[ExplainedStep]]:
    """What most series of a machine did alike, in suites that have nothing to do with each other."""
    candidates = [step for step in steps if _may_be_machine(step, context) and math.isfinite(step.log_cost)]
    if not candidates:
        return "", []
    size = statistics.median(step.log_cost for step in candidates)
    similar = [step for step in candidates if _is_similar(step.log_cost, size)]
    suites = {get_suite_name(step.change.series.benchmark.name) for step in similar}
    return (
        ("machine_wide", similar)
        if len(suites) >= MIN_UNRELATED_SUITES and 2 * len(similar) > series_count > 0
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
    same_sign = first * second > 0 and math.isfinite(first) and math.isfinite(second)
    return same_sign and abs(math.log(first / second)) <= MAX_LOG_RATIO


def get_suite_name(benchmark: str) -> str:
    """The file a benchmark comes from: ``training`` of ``training.Step.time_step``."""
    return benchmark.partition(".")[0]
