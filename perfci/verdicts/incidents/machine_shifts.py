"""Shifts that the machine caused and no code explains: shared with a canary, shared by most unrelated
benchmarks, or of a bad session.

A change of code mostly slows things down: of the changes MongoDB confirmed in a year 63 were
regressions and 17 improvements (ICPE 2020), so about one in five points the other way. And its
effect is still there in the next run. A session whose jumps point both ways, or are gone in the
next run, had a disturbed machine.

A trade of one benchmark against another also points both ways, and a slower allocator slows all
suites down. So without a canary, and while the new level lasts, the machine is only suspected:
fresh pairs of a few series are ordered, which confirm a change of the code or the suspicion.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.special import bdtrc

from perfci.model import IncidentKind, Machine, Series
from perfci.verdicts.incidents.step_causes import (
    CODE_CAUSE,
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

StepsByCause = list[tuple[StepCause, list[ExplainedStep]]]
"""Causes, each with its steps."""


@dataclass(frozen=True, slots=True)
class SessionJump:
    """A series that stood out in a session; ``persists`` is whether the next run saw it, None
    without one."""

    series: Series
    session: str
    worse: bool
    persists: bool | None = None


@dataclass(frozen=True, slots=True)
class BadSession:
    """A session on a machine whose jumps no code explains: ``is_balanced`` in sign,
    ``is_transient``, or both."""

    session: str
    machine: Machine
    jump_count: int
    worse_count: int
    vanished_count: int
    is_balanced: bool
    is_transient: bool


def find_bad_sessions(jumps: Sequence[SessionJump]) -> list[BadSession]:
    """Sessions with a disturbed machine, by name."""
    jumps_by_session: dict[tuple[str, Machine], list[SessionJump]] = defaultdict(list)
    for jump in jumps:
        jumps_by_session[jump.session, jump.series.machine].append(jump)
    sessions = [
        _assess_session(name, machine, own_jumps) for (name, machine), own_jumps in jumps_by_session.items()
    ]
    bad_sessions = [
        session
        for session in sessions
        if session.jump_count >= MIN_JUMPS and (session.is_balanced or session.is_transient)
    ]
    return sorted(bad_sessions, key=lambda session: (session.session, session.machine.label))


def _assess_session(session: str, machine: Machine, jumps: Sequence[SessionJump]) -> BadSession:
    worse = sum(jump.worse for jump in jumps)
    remeasured = [jump for jump in jumps if jump.persists is not None]
    vanished = sum(jump.persists is False for jump in remeasured)
    minority = min(worse, len(jumps) - worse)
    return BadSession(
        session,
        machine,
        len(jumps),
        worse,
        vanished,
        is_balanced=_binomial_upper_tail(minority, len(jumps), MINORITY_DIRECTION_SHARE) <= TEST_LEVEL,
        is_transient=2 * vanished > len(remeasured)
        and _binomial_upper_tail(vanished, len(remeasured), MISSED_STEP_SHARE) <= TEST_LEVEL,
    )


def _binomial_upper_tail(count: int, trials: int, probability: float) -> float:
    """P(X >= count) of a binomial distribution."""
    return float(bdtrc(count - 1, trials, probability))


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
    blamable: dict[int, str] = {}
    suites: dict[tuple[str, Machine], set[str]] = defaultdict(set)
    for k, step in enumerate(steps):
        series, visit = step.change.series, context.first_session_visit(step.change)
        # what fresh pairs refuted was the session's too, though it needs no other cause
        is_refuted = step.cause.name == "refuted"
        if visit is None or step.estimate is None or not (is_refuted or _may_be_machine(step, context)):
            continue
        if (visit.session, series.machine) in cleared:
            continue
        end = step.estimate.index + step.estimate.points_after
        level = context.points[series][step.estimate.index : end]
        sessions = [
            {visit.session for visit in context.visits.get((point.sha, series.machine), ())}
            for point in level
        ]
        if all(names == {visit.session} for names in sessions):
            blamable[k] = visit.session
            # the file a benchmark comes from: ``training`` of ``training.Step.time_step``
            suites[visit.session, series.machine].add(series.benchmark.name.partition(".")[0])
    if not blamable:
        return list(steps)
    jumps = [
        SessionJump(steps[k].change.series, session, steps[k].change.log_cost_change > 0)
        for k, session in blamable.items()
    ]
    bad_sessions = {(session.session, session.machine) for session in find_bad_sessions(jumps)}
    explained = list(steps)
    for k, session in blamable.items():
        key = session, steps[k].change.series.machine
        is_open = steps[k].cause == CODE_CAUSE
        if is_open and key in bad_sessions and len(suites[key]) >= MIN_UNRELATED_SUITES:
            cause = StepCause(IncidentKind.MACHINE, "bad_session", session=session)
            explained[k] = replace(steps[k], cause=cause)
    return explained


def find_refuted_nearby(
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


def split_shared_steps(
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
        moved = [
            *similar,
            *(
                step
                for step in find_refuted_nearby(similar, refuted)
                if step.change.series.metric.unit == unit and _is_similar(step, size)
            ),
        ]
        suites = {step.change.series.benchmark.name.partition(".")[0] for step in moved}
        is_most = 2 * len(moved) > context.series_counts.get((machine, unit), 0) > 0
        if canaries:
            cause_name = "canary"
            shared = [step for step in candidates if step in canaries or step in similar]
        elif is_most and len(suites) >= MIN_UNRELATED_SUITES and not is_confirmed:
            cause_name, shared = "machine_wide", similar
        else:
            continue
        parts.append((StepCause(IncidentKind.MACHINE, cause_name), shared))
        remaining = [step for step in remaining if not any(step is shared_step for shared_step in shared)]
    return [*parts, (CODE_CAUSE, remaining)] if remaining else parts


def _is_similar(step: ExplainedStep, size: float) -> bool:
    ratio = step.change.log_cost_change / size if size else 0.0
    return 0 < ratio < math.inf and abs(math.log(ratio)) <= MAX_LOG_RATIO


def _may_be_machine(step: ExplainedStep, context: HistoryContext) -> bool:
    """Whether the machine may be the cause: not confirmed on fresh pairs, not exact, and measured
    apart, in no interleaved session that measured both sides."""
    is_exact = step.estimate is not None and step.estimate.exact
    if step.cause != CODE_CAUSE or step.is_confirmed or is_exact:
        return False
    commits = step.change.last_good, step.change.commit
    visits = [context.visits.get((sha, step.change.series.machine), ()) for sha in commits]
    before, after = ({visit.session for visit in side if visit.interleaved} for side in visits)
    return not before & after
