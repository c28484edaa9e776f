"""Shifts that the machine caused and no code explains: shared with a canary, shared by most unrelated
benchmarks, or of a bad session.

A change of code mostly slows things down: of the changes MongoDB confirmed in a year 63 were
regressions and 17 improvements (ICPE 2020), so about one in five points the other way. And its
effect is still there in the next run. A session whose jumps point both ways, or are gone in the
next run, had a disturbed machine.

A trade of one benchmark against another also points both ways, and a slower allocator slows all
suites down. So without a canary, and while the new level lasts, the machine is only suspected:
fresh pairs of a few series are ordered, which confirm a change of the code or of the machine. A
suspected shift that nobody measures ends: then it is a change of the code like any other.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from scipy.special import bdtrc

from perfci.model import IncidentKind, Machine
from perfci.verdicts.incidents.step_causes import (
    CODE_CAUSE,
    REFUTED_CAUSE,
    ExplainedStep,
    HistoryContext,
    StepCause,
)

MAX_LOG_RATIO = math.log(2)
"""Two shifts within a factor of two are similar: beyond it more than the shared part would be left
to explain."""

MIN_UNRELATED_SUITES = 3
"""Two suites may share the code that got slower. Three or more, with most of the machine's series
in one unit moving by the same size at once, point to the machine."""

MINORITY_DIRECTION_SHARE = 17 / 80
"""Share of jumps in the rarer direction that changes of code produce (MongoDB, ICPE 2020)."""

MISSED_STEP_SHARE = 0.05
"""Share of true jumps that the next run misses; small because of the size bar
(docs/design/statistics.md)."""

TEST_LEVEL = 0.05
"""Code is ruled out where it would produce such jumps in fewer than one of twenty sessions, the
usual level."""

MIN_JUMPS = 4
"""Fewer jumps are examined one by one: fresh pairs for three cost less than an explanation."""

PROVISIONAL_CAUSES = frozenset({"machine_wide", "bad_session"})
"""Causes that fresh pairs have to tell from a change of the code."""

MAX_TIME_UNMEASURED = timedelta(days=7)
"""How long a suspected shift waits for these pairs. Jobs that measure what was ordered run nightly or weekly,
and what nobody measures may be a slowdown of the code."""

UNMEASURED_CAUSE = "unmeasured_suspicion"
"""The machine was suspected for so long, and nobody measured the pairs: the code is the cause after all."""

StepsByCause = list[tuple[StepCause, list[ExplainedStep]]]
"""Causes, each with its steps."""


def classify_session_jumps(is_worse: Sequence[bool], persists: Sequence[bool | None] = ()) -> str:
    """Cause of the jumps of one session on a machine: ``transient`` where the next run did not see most of
    them again, ``bad_session`` where they point both ways; empty where code may be the cause.

    ``persists`` is whether the next run saw a jump, None without one.
    """
    if len(is_worse) < MIN_JUMPS:
        return ""
    remeasured = [seen for seen in persists if seen is not None]
    vanished = remeasured.count(False)
    may_be_missed = bdtrc(vanished - 1, len(remeasured), MISSED_STEP_SHARE) > TEST_LEVEL
    if 2 * vanished > len(remeasured) and not may_be_missed:
        return "transient"
    worse = sum(is_worse)
    minority = min(worse, len(is_worse) - worse)
    is_balanced = bdtrc(minority - 1, len(is_worse), MINORITY_DIRECTION_SHARE) <= TEST_LEVEL
    return "bad_session" if is_balanced else ""


def blame_bad_sessions(steps: Sequence[ExplainedStep], context: HistoryContext) -> list[ExplainedStep]:
    """Set the cause of steps seen only in a session with a disturbed machine.

    A level that later sessions saw as well is not the session's, and a session with a step that
    fresh pairs confirmed was none.
    """
    cleared = {
        (visit.session, step.change.series.machine)
        for step in steps
        if step.is_confirmed and (visit := context.first_session_visit(step.change))
    }
    blamable: dict[tuple[str, Machine], list[int]] = defaultdict(list)
    for k, step in enumerate(steps):
        series, visit = step.change.series, context.first_session_visit(step.change)
        # what fresh pairs refuted was the session's too, though it needs no other cause
        may_be_machine = step.cause == REFUTED_CAUSE or _may_be_machine(step, context)
        if visit is None or step.place is None or not may_be_machine:
            continue
        level = (context.points[series][at] for at in step.place.level)
        visits = (other for point in level for other in context.visits.get((point.sha, series.machine), ()))
        if all(other.session == visit.session for other in visits):
            blamable[visit.session, series.machine].append(k)
    explained = list(steps)
    refuted = [step for step in steps if step.cause == REFUTED_CAUSE]
    for (session, machine), members in blamable.items():
        cause_name = classify_session_jumps([steps[k].change.log_cost_change > 0 for k in members])
        is_unrelated = count_suites(steps[k] for k in members) >= MIN_UNRELATED_SUITES
        if cause_name and is_unrelated and (session, machine) not in cleared:
            unexplained = [k for k in members if steps[k].cause == CODE_CAUSE]
            suspects = [steps[k] for k in unexplained]
            cause = _blame_machine(cause_name, suspects, refuted, context, session=session)
            for k in unexplained:
                explained[k] = replace(steps[k], cause=cause)
    return explained


def _blame_machine(
    name: str,
    steps: Sequence[ExplainedStep],
    refuted: Sequence[ExplainedStep],
    context: HistoryContext,
    *,
    session: str = "",
) -> StepCause:
    """The machine as the cause, until fresh pairs tell it from the code: without any for
    ``MAX_TIME_UNMEASURED``, by its newest measurement, the code is the cause after all."""
    machines = {step.change.series.machine for step in steps}
    first = [visit.started_at for step in steps if (visit := context.first_session_visit(step.change))]
    of_machines = (visits for (_, machine), visits in context.visits.items() if machine in machines)
    newest = [visit.started_at for visits in of_machines for visit in visits]
    is_answered = bool(find_refuted_steps_nearby(steps, refuted))
    if first and not is_answered and max(newest) - min(first) > MAX_TIME_UNMEASURED:
        return StepCause(name=UNMEASURED_CAUSE, session=session)
    return StepCause(IncidentKind.MACHINE, name, session=session)


def count_suites(steps: Iterable[ExplainedStep]) -> int:
    """In how many suites these steps are: ``training`` of ``training.Step.time_step``."""
    return len({step.change.series.benchmark.name.partition(".")[0] for step in steps})


def find_refuted_steps_nearby(
    steps: Sequence[ExplainedStep], refuted: Sequence[ExplainedStep]
) -> list[ExplainedStep]:
    """Steps that fresh pairs refuted on the machine and at the commits of some others."""
    return [
        other
        for other in refuted
        if any(
            other.change.series.machine == step.change.series.machine
            and other.commit_range.first < step.commit_range.last
            and step.commit_range.first < other.commit_range.last
            for step in steps
        )
    ]


def split_steps_by_cause(
    steps: Sequence[ExplainedStep], context: HistoryContext, refuted: Sequence[ExplainedStep] = ()
) -> StepsByCause:
    """Split one group of steps into what its machines share and what is left for the code.

    A machine shares the steps similar to that of a canary, which no commit touches, and the canary
    itself; without one, similar steps of most of its series in one unit, in suites unrelated to each
    other, those that fresh pairs refuted among them, unless they confirmed one.
    """
    parts: StepsByCause = []
    remaining = list(steps)
    steps_by_unit: dict[tuple[Machine, str], list[ExplainedStep]] = defaultdict(list)
    for step in steps:
        steps_by_unit[step.change.series.machine, step.change.series.metric.unit].append(step)
    for machine, unit in sorted(steps_by_unit, key=lambda key: (repr(key[0]), key[1])):
        candidates = steps_by_unit[machine, unit]
        movable = [step for step in candidates if _may_be_machine(step, context)]
        # what the shared step is measured by: the canaries, else all that the machine may have moved
        canaries = [step for step in candidates if context.is_canary(step.change.series)]
        references = canaries or [step for step in movable if math.isfinite(step.change.log_cost_change)]
        if not references:
            continue
        size = statistics.median(step.change.log_cost_change for step in references)
        similar = [step for step in movable if _is_similar(step, size)]
        is_confirmed = any(step.is_confirmed and _is_similar(step, size) for step in candidates)
        nearby = find_refuted_steps_nearby(similar, refuted)
        of_unit = [step for step in nearby if step.change.series.metric.unit == unit]
        moved = [*similar, *(step for step in of_unit if _is_similar(step, size))]
        if canaries:
            cause = StepCause(IncidentKind.MACHINE, "canary")
            shared = [step for step in candidates if step in canaries or step in similar]
        elif not is_confirmed and _has_moved_most(moved, machine, unit, context):
            cause, shared = _blame_machine("machine_wide", similar, refuted, context), similar
        else:
            continue
        parts.append((cause, shared))
        remaining = [step for step in remaining if not any(step is shared_step for shared_step in shared)]
    return [*parts, (CODE_CAUSE, remaining)] if remaining else parts


def _has_moved_most(
    moved: Sequence[ExplainedStep], machine: Machine, unit: str, context: HistoryContext
) -> bool:
    """Whether these are steps in unrelated suites, and of most series in a unit that a machine measured at
    their commits."""
    if count_suites(moved) < MIN_UNRELATED_SUITES:
        return False
    return 2 * len(moved) > context.count_series(machine, unit, {step.change.commit for step in moved}) > 0


def _is_similar(step: ExplainedStep, size: float) -> bool:
    ratio = step.change.log_cost_change / size if size else 0.0
    return 0 < ratio < math.inf and abs(math.log(ratio)) <= MAX_LOG_RATIO


def _may_be_machine(step: ExplainedStep, context: HistoryContext) -> bool:
    """Whether the machine may be the cause: not confirmed on fresh pairs, not exact, and measured
    apart, in no interleaved session that measured both sides."""
    if step.cause != CODE_CAUSE or step.is_confirmed or step.change.is_exact:
        return False
    commits = step.change.last_good, step.change.commit
    visits = [context.visits.get((sha, step.change.series.machine), ()) for sha in commits]
    before, after = ({visit.session for visit in side if visit.interleaved} for side in visits)
    return not before & after
