"""Causes of single change points: the evidence around each, and whether code can be blamed."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from perfci.model import (
    ChangePoint,
    Commit,
    EnvironmentChange,
    IncidentKind,
    Machine,
    PairTest,
    Series,
    Verdict,
    VerdictKind,
)
from perfci.stats.step_size import MIN_P_VALUE
from perfci.verdicts.comparison_rule import MOVE_KINDS, RuleLookup, default_rule
from perfci.verdicts.history.step_evidence import (
    MIN_LEVEL_POINTS,
    LevelPoint,
    StepPlace,
    find_environment_coincidence,
    find_reversals,
    place_step,
)


@dataclass(frozen=True, slots=True)
class SessionVisit:
    """A session that measured a commit on a machine; interleaved sessions measure in rounds, so
    their commits share the drift of the machine."""

    session: str
    started_at: datetime
    interleaved: bool = False


@dataclass(frozen=True)
class HistoryContext:
    """Stored facts around the change points of a project.

    ``commits`` are oldest first; ``points`` those around each step; ``confirmations`` verdicts on
    fresh pairs; ``count_series`` gives how many series of a unit a machine measured at any of some commits.
    """

    project: str
    commits: Sequence[Commit]
    points: Mapping[Series, Sequence[LevelPoint]] = field(default_factory=dict)
    confirmations: Mapping[Series, Sequence[Verdict]] = field(default_factory=dict)
    visits: Mapping[tuple[str, Machine], Sequence[SessionVisit]] = field(default_factory=dict)
    count_series: Callable[[Machine, str, Collection[str]], int] = lambda machine, unit, shas: 0
    rules: RuleLookup = default_rule
    is_canary: Callable[[Series], bool] = lambda series: False

    @cached_property
    def positions(self) -> dict[str, int]:
        """Position of each commit on the line, by sha."""
        return {commit.sha: at for at, commit in enumerate(self.commits)}

    def first_session_visit(self, change: ChangePoint) -> SessionVisit | None:
        """The first session that measured the new level."""
        visits = self.visits.get((change.commit, change.series.machine), ())
        return min(visits, key=lambda visit: (visit.started_at, visit.session), default=None)


@dataclass(frozen=True, slots=True)
class StepCause:
    """What explains a step if no commit does; equal causes are one incident where their ranges
    meet."""

    kind: IncidentKind | None = None
    name: str = ""
    environment_changes: tuple[EnvironmentChange, ...] = ()
    reverted_by: str = ""
    session: str = ""


CODE_CAUSE = StepCause()
"""No other cause: a commit is to blame."""

REFUTED_CAUSE = StepCause(IncidentKind.MACHINE, "refuted")
"""Fresh pairs of the same commits show no change."""

MIN_EVIDENCE = math.log(2)
"""Least evidence of a step, log 2: that of one toss of a coin."""


@dataclass(frozen=True, slots=True, order=True)
class WeightedRange:
    """The commits after position ``first`` and up to position ``last``, one of which moved
    something.

    ``weight`` is the evidence that it moved. ``adjacent`` are ranges (first, last, likelihood
    ratio) before and after in which it may have moved as well.
    """

    first: int
    last: int
    weight: float = 1.0
    adjacent: tuple[tuple[int, int, float], ...] = ()

    @property
    def range_weights(self) -> tuple[tuple[int, int, float], ...]:
        """(first, last, weight per commit) of each range; commits of a range are equally likely,
        weights sum to ``weight``."""
        ranges = ((self.first, self.last, 1.0), *self.adjacent)
        total = sum(share for _, _, share in ranges)
        return tuple((lo, hi, self.weight * share / total / (hi - lo)) for lo, hi, share in ranges if hi > lo)

    def may_contain(self, position: int) -> bool:
        """Whether the commit at a position may be the cause."""
        return any(lo < position <= hi for lo, hi, _ in self.range_weights)


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """A change point with its evidence.

    ``reported_change`` has the levels and the size that fresh pairs measured, if they did: what all pages
    show.
    ``is_confirmed`` says that fresh pairs confirmed a move, ``is_settled`` that three points, fresh
    pairs or an exact count support it; ``pair_tests`` are those of all fresh pairs of its commits.
    """

    change: ChangePoint
    commit_range: WeightedRange
    cause: StepCause
    reported_change: ChangePoint
    place: StepPlace | None = None
    verdict: Verdict | None = None
    is_confirmed: bool = False
    is_settled: bool = False
    pair_tests: tuple[PairTest, ...] = ()
    ambiguous: bool = False
    ongoing: bool = True
    reversal: ChangePoint | None = None


def explain_steps(changes: Sequence[ChangePoint], context: HistoryContext) -> list[ExplainedStep]:
    """Explain all change points, in an order that does not depend on the input; a reversal is
    attached to the step it undid."""
    changes_by_series: dict[Series, list[ChangePoint]] = defaultdict(list)
    for change in changes:
        changes_by_series[change.series].append(change)
    explained = []
    for series, unordered in changes_by_series.items():
        steps = sorted(unordered, key=lambda step: context.positions.get(step.commit, -1))
        half_bar = math.log1p(context.rules(series).bar) / 2
        # a single step, as most series have, is not undone
        reversals = find_reversals(steps, context.positions, half_bar) if len(steps) > 1 else {}
        returning = {reversal.commit for reversal in reversals.values()}
        explained += [
            _explain_step(steps, k, reversals.get(step.commit), context)
            for k, step in enumerate(steps)
            if step.commit not in returning
        ]
    return sorted(explained, key=step_sort_key)


def build_step_without_evidence(change: ChangePoint, context: HistoryContext) -> ExplainedStep:
    """A step without evidence around it."""
    commit_range = WeightedRange(*_position_range(change, context.positions), MIN_EVIDENCE)
    return ExplainedStep(change, commit_range, CODE_CAUSE, reported_change=change)


def add_confirmed_steps(
    changes: Sequence[ChangePoint],
    confirmations: Mapping[Series, Sequence[Verdict]],
    positions: Mapping[str, int],
) -> list[ChangePoint]:
    """Add moves that fresh pairs confirmed where the history shows no step, as a short one cannot."""
    ranges: dict[Series, list[tuple[int, int]]] = defaultdict(list)
    for change in changes:
        ranges[change.series].append(_position_range(change, positions))
    added = []
    for series, verdicts in confirmations.items():
        for verdict in verdicts:
            first, last = positions.get(verdict.base, -1), positions.get(verdict.head, -1)
            is_covered = any(lo < last and first < hi for lo, hi in ranges[series])
            if verdict.kind in MOVE_KINDS and verdict.ratio and -1 < first < last and not is_covered:
                ranges[series].append((first, last))
                added.append(verdict.as_change_point)
    return [*changes, *added]


def _explain_step(
    steps: Sequence[ChangePoint], k: int, reversal: ChangePoint | None, context: HistoryContext
) -> ExplainedStep:
    """Explain step ``k`` of a series, its ``steps`` in order, from its points and from fresh pairs."""
    step, series, positions = steps[k], steps[k].series, context.positions
    points, half_bar = context.points.get(series, ()), math.log1p(context.rules(series).bar) / 2
    place, reported = place_step(points, step, steps), step
    is_settled = place is not None and (step.is_exact or len(place.level) >= MIN_LEVEL_POINTS)
    # fresh pairs within the range: a confirmed move, else a verdict on the whole range
    first, last = _position_range(step, positions)
    within = [
        verdict
        for verdict in context.confirmations.get(series, ())
        if first <= positions.get(verdict.base, -2) < positions.get(verdict.head, -2) <= last
    ]
    confirmed = next((verdict for verdict in within if verdict.kind in MOVE_KINDS), None)
    on_whole_range = (
        verdict for verdict in within if (positions[verdict.base], positions[verdict.head]) == (first, last)
    )
    if confirmed is not None and confirmed.ratio is not None:
        measured = confirmed.as_change_point
        reported = replace(step, before=measured.before, after=measured.after, interval=measured.interval)
    # no later steps brought the level back to within half the bar
    totals = itertools.accumulate(later.log_cost_change for later in steps[k:])
    explained = ExplainedStep(
        step,
        _weighted_range(step, place, confirmed, points, positions),
        CODE_CAUSE,
        reported,
        place,
        confirmed or next(on_whole_range, None),
        is_confirmed=confirmed is not None,
        is_settled=is_settled or confirmed is not None,
        pair_tests=tuple(test for item in within if (test := build_pair_test(item)) is not None),
        ongoing=all(math.isnan(total) or total > half_bar for total in totals),
        reversal=reversal,
    )
    return _find_cause(explained, context)


def build_pair_test(verdict: Verdict) -> PairTest | None:
    """The test of a verdict on fresh pairs; its newest process tells when they came."""
    if verdict.p_value is None:
        return None
    return PairTest(max(verdict.evidence, default=0), verdict.p_value)


def _position_range(step: ChangePoint, positions: Mapping[str, int]) -> tuple[int, int]:
    """Positions on the line; a commit that is not on it counts as before all others."""
    last = positions.get(step.commit, 0)
    return min(positions.get(step.last_good, last - 1), last - 1), last


def _weighted_range(
    step: ChangePoint,
    place: StepPlace | None,
    confirmed: Verdict | None,
    points: Sequence[LevelPoint],
    positions: Mapping[str, int],
) -> WeightedRange:
    """Range of commits that may contain the step, which pairs that confirmed it may have narrowed, with the
    ranges beside it at their likelihoods.

    A step k points off its best position has the likelihood ratio exp(-k sigmas^2 / 2). The evidence is that
    of the history or of the pairs, whichever is more.
    """
    first, last = _position_range(step, positions)
    p_values = [step.p_value]
    if confirmed is not None:
        first, last = positions[confirmed.base], positions[confirmed.head]
        p_values.append(confirmed.p_value)
    smallest = min((p_value for p_value in p_values if p_value is not None), default=1.0)
    weight = max(-math.log(max(smallest, MIN_P_VALUE)), MIN_EVIDENCE)
    adjacent = []
    start, likely_starts = (place.level.start, place.likely_starts) if place else (0, range(0))
    for k in likely_starts:
        before, after = positions.get(points[k - 1].sha, -1), positions.get(points[k].sha, -1)
        if k != start and -1 < before < after:
            adjacent.append((before, after, math.exp(-abs(k - start) * step.sigmas**2 / 2)))
    return WeightedRange(first, last, weight, tuple(adjacent))


def _find_cause(step: ExplainedStep, context: HistoryContext) -> ExplainedStep:
    """Find the cause of a step, code last; fresh pairs, measured in one environment, outrank all
    other evidence."""
    if step.reversal is not None:
        return replace(
            step, cause=StepCause(IncidentKind.RESOLVED, "reverted", reverted_by=step.reversal.commit)
        )
    is_refuted = step.verdict is not None and step.verdict.kind is VerdictKind.UNCHANGED
    points = context.points.get(step.change.series, ())
    has_environment_changes = any(point.environment != points[0].environment for point in points)
    if step.place is not None and not step.is_confirmed and has_environment_changes:
        is_adjacent = step.commit_range.last == step.commit_range.first + 1
        before, after = (context.positions.get(sha) for sha in (step.change.last_good, step.change.commit))
        if before is not None and after is not None:
            commit = context.commits[after]
            has_lineage = bool(commit.parents or commit.position)
            is_adjacent &= not has_lineage or is_next_commit(context.commits[before], commit)
        coincidence = find_environment_coincidence(points, step.place, not is_adjacent)
        if coincidence:
            cause = StepCause(IncidentKind.ENVIRONMENT, "environment", coincidence.changes)
            return replace(step, cause=cause, ambiguous=coincidence.ambiguous and not is_refuted)
    return replace(step, cause=REFUTED_CAUSE) if is_refuted else step


def is_next_commit(before: Commit, commit: Commit) -> bool:
    """Whether one commit is known to directly follow another."""
    if before.sha in commit.parents:
        return True
    return before.position is not None and commit.position == before.position + 1


def step_sort_key(step: ExplainedStep) -> tuple[object, ...]:
    """Sort key that does not depend on how the change points were found."""
    series = step.change.series
    return step.commit_range.first, step.commit_range.last, series.label, repr(series), step.change.commit
