"""Shifts that no code explains: shared with a canary, shared by most unrelated benchmarks, or of a
bad session."""

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
"""Two shifts within a factor of two are similar: beyond it more than the shared part would be left
to explain."""

MIN_UNRELATED_SUITES = 3
"""Two suites may share the code that got slower. Three or more, with most of the machine's series
in one unit moving by the same size at once, point to the machine."""

StepsByCause = list[tuple[StepCause, list[ExplainedStep]]]
"""Causes, each with its steps."""


def blame_bad_sessions(steps: Sequence[ExplainedStep], context: HistoryContext) -> list[ExplainedStep]:
    """Set the cause of steps seen only in a session with a disturbed machine.

    A level that later sessions saw as well is not the session's.
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
    """The one session whose machine may have caused a step; None where code did, or several
    sessions saw it."""
    visit = context.first_visit(step.change) if _may_be_machine(step, context) else None
    return visit if visit and context.is_seen_only_in(step, visit) else None


def split_shared_steps(steps: Sequence[ExplainedStep], context: HistoryContext) -> StepsByCause:
    """Split one group of steps into what its machines share and what is left for the code."""
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
    """Steps similar to that of a canary, which no commit touches, and the canary itself."""
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
    """Similar steps of most series of a machine, in suites unrelated to each other."""
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
    """Whether the machine may be the cause: not confirmed on fresh pairs, not exact, and measured
    apart."""
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
    """File a benchmark comes from: ``training`` of ``training.Step.time_step``."""
    return benchmark.partition(".")[0]
