"""Each change point by itself: what is known around it, and whether the code can be blamed for it at all."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from perfci.model import ChangePoint, Commit, IncidentKind, Machine, ObservedChange, Series, Stage, Verdict, VerdictKind
from perfci.verdicts.compare.round_candidates import Rules, plainly
from perfci.verdicts.history.environment_changes import coincidence
from perfci.verdicts.history.step_estimate import SETTLED_POINTS, Boundary, Seen, boundary
from perfci.verdicts.history.step_reversals import machine_states, went_away
from perfci.verdicts.incidents.range_grouping import Stretch, drop_of_likelihood
from perfci.verdicts.rule import MOVES


@dataclass(frozen=True, slots=True)
class Visit:
    """A session that measured a commit on a machine; interleaved ones measure in rounds, so that commits share the
    machine's mood.
    """

    session: str
    started_at: datetime
    interleaved: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """All that is stored around the change points of a project.

    ``line`` are its commits, oldest first; ``seen`` the points around each step; ``convictions`` what fresh pairs said
    of a series; ``peers`` how many series of a unit a machine measures.
    """

    project: str
    line: Sequence[Commit]
    seen: Mapping[Series, Sequence[Seen]] = field(default_factory=dict)
    convictions: Mapping[Series, Sequence[Verdict]] = field(default_factory=dict)
    visits: Mapping[tuple[str, Machine], Sequence[Visit]] = field(default_factory=dict)
    peers: Mapping[tuple[Machine, str], int] = field(default_factory=dict)
    rules: Rules = plainly
    canary: Callable[[Series], bool] = lambda series: False

    def apart(self, change: ChangePoint) -> bool:
        """Whether the two sides of a step never shared the machine's mood."""
        sides = [
            {visit.session for visit in self.visits.get((sha, change.series.machine), ()) if visit.interleaved}
            for sha in (change.last_good, change.commit)
        ]
        return not sides[0] & sides[1]

    def only_in(self, move: Move, visit: Visit) -> bool:
        """Whether nobody but one session has seen the new level."""
        if move.step is None:
            return False
        series = move.change.series
        level = self.seen[series][move.step.at : move.step.at + move.step.points]
        visits = (self.visits.get((one.sha, series.machine), ()) for one in level)
        return all({one.session for one in of} == {visit.session} for of in visits)

    def visit(self, change: ChangePoint) -> Visit | None:
        """The session that saw the new level first."""
        visits = self.visits.get((change.commit, change.series.machine), ())
        return min(visits, key=lambda visit: (visit.started_at, visit.session), default=None)


@dataclass(frozen=True, slots=True)
class Cause:
    """What explains a step where no commit does; equal causes are one incident where their ranges meet."""

    kind: IncidentKind | None = None
    word: str = ""
    observed: tuple[ObservedChange, ...] = ()
    until: str = ""
    session: str = ""


CODE = Cause()

COIN = math.log(2)
"""A step that is not seen, or hardly, still weighs as much as a coin that fell on its side."""


@dataclass(frozen=True, slots=True)
class Move:
    """A change point with what is known around it; ``cost`` is its log shift, positive where things got worse."""

    change: ChangePoint
    stretch: Stretch
    cost: float
    cause: Cause
    step: Boundary | None = None
    verdict: Verdict | None = None
    ambiguous: bool = False
    standing: bool = True
    back: ChangePoint | None = None

    @property
    def convicted(self) -> bool:
        return self.verdict is not None and self.verdict.kind in MOVES

    @property
    def refuted(self) -> bool:
        return self.verdict is not None and self.verdict.kind is VerdictKind.UNCHANGED

    @property
    def exact(self) -> bool:
        return self.step is not None and self.step.exact

    @property
    def told(self) -> ChangePoint:
        """The change point with the size its conviction gives, so that all places tell one number."""
        if not self.convicted or self.verdict is None or self.verdict.ratio is None:
            return self.change
        return replace(self.change, rel=self.verdict.ratio - 1)

    @property
    def settled(self) -> bool:
        """Whether three points, fresh pairs or an exact count speak for it."""
        return self.convicted or self.exact or (self.step is not None and self.step.points >= SETTLED_POINTS)

    @property
    def p_value(self) -> float:
        if self.convicted and self.verdict is not None and self.verdict.p_value is not None:
            return self.verdict.p_value
        return self.step.p_value if self.step else 1.0


def moves_of(changes: Sequence[ChangePoint], known: Known) -> list[Move]:
    """All change points in one order, however they were found; a step that undoes the one before is its ``back``."""
    place = {commit.sha: at for at, commit in enumerate(known.line)}
    of_series: dict[Series, list[ChangePoint]] = defaultdict(list)
    for change in changes:
        of_series[change.series].append(change)
    found = [
        move
        for series, steps in of_series.items()
        for move in _of_series(series, sorted(steps, key=lambda one: place.get(one.commit, -1)), known, place)
    ]
    return sorted(found, key=order)


def bare(change: ChangePoint, known: Known) -> Move:
    """A step with nothing known around it."""
    place = {commit.sha: at for at, commit in enumerate(known.line)}
    return Move(change, Stretch(*_range(change, place), COIN), cost_of(change), CODE)


def convictions(verdicts: Iterable[Verdict]) -> dict[Series, list[Verdict]]:
    """What fresh pairs said of each series."""
    found: dict[Series, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.stage is Stage.CONVICTION and verdict.base != verdict.head:
            found[verdict.series].append(verdict)
    return found


def with_convictions(
    changes: Sequence[ChangePoint], verdicts: Iterable[Verdict], place: Mapping[str, int]
) -> list[ChangePoint]:
    """Add what fresh pairs convicted on the line where the history shows no step, as one too short cannot."""
    ranges: dict[Series, list[tuple[int, int]]] = defaultdict(list)
    for change in changes:
        ranges[change.series].append(_range(change, place))
    added = []
    for series, said in convictions(verdicts).items():
        for one in said:
            first, last = place.get(one.base, -1), place.get(one.head, -1)
            known = any(lo < last and first < hi for lo, hi in ranges[series])
            if one.kind in MOVES and one.ratio and -1 < first < last and not known:
                before = one.base_level or 1.0
                ranges[series].append((first, last))
                added.append(ChangePoint(series, one.head, one.base, one.ratio - 1, before, before * one.ratio))
    return [*changes, *added]


def _of_series(series: Series, steps: Sequence[ChangePoint], known: Known, place: Mapping[str, int]) -> Iterable[Move]:
    bar = math.log1p(known.rules(series).bar)
    seen, shas = known.seen.get(series, ()), [step.commit for step in steps]
    hops = machine_states(steps)
    gone = {sha: back for sha, back in went_away(steps, place, bar / 2).items() if not {sha, back.commit} & hops}
    returns = {back.commit for back in gone.values()}
    costs = [cost_of(step) for step in steps]
    for k, step in enumerate(steps):
        if step.commit in returns:
            continue
        around = boundary(seen, step.commit, shas)
        first, last = _range(step, place)
        verdict = _verdict(known.convictions.get(series, ()), first, last, place)
        if verdict and verdict.kind in MOVES:
            first, last = place[verdict.base], place[verdict.head]
        move = Move(
            step,
            Stretch(first, last, COIN) if around is None else _stretch(around, first, last, seen, place),
            costs[k],
            CODE,
            around,
            verdict,
            standing=_standing(costs[k:], bar),
            back=gone.get(step.commit),
        )
        yield _explained(move, seen, step.commit in hops, _neighbours(step, known.line, place))


def _range(step: ChangePoint, place: Mapping[str, int]) -> tuple[int, int]:
    """Places on the line; a commit that is not on it stands before all others."""
    last = place.get(step.commit, 0)
    return min(place.get(step.last_good, last - 1), last - 1), last


def _verdict(verdicts: Sequence[Verdict], first: int, last: int, place: Mapping[str, int]) -> Verdict | None:
    """What fresh pairs said of a range: a move they found somewhere in it, else what they said of all of it."""
    within = [
        verdict for verdict in verdicts if first <= place.get(verdict.base, -2) < place.get(verdict.head, -2) <= last
    ]
    moved = [verdict for verdict in within if verdict.kind in MOVES]
    whole = [one for one in within if (place[one.base], place[one.head]) == (first, last)]
    return next(iter([*moved, *whole]), None)


def _neighbours(step: ChangePoint, line: Sequence[Commit], place: Mapping[str, int]) -> bool:
    """Whether no commit lies between the two points, as far as anybody knows."""
    if step.commit not in place or step.last_good not in place:
        return True
    before, commit = line[place[step.last_good]], line[place[step.commit]]
    return follows(before, commit) or not (commit.parents or commit.position)


def follows(before: Commit, commit: Commit) -> bool:
    """Whether one commit is known to come right after another on the line."""
    if before.sha in commit.parents:
        return True
    return before.position is not None and commit.position == before.position + 1


def _explained(move: Move, seen: Sequence[Seen], hops: bool, neighbours: bool) -> Move:
    """Blame the code last; fresh pairs, measured in one environment on one machine, outrank every other sign."""
    if hops:
        return replace(move, cause=Cause(IncidentKind.MACHINE, "states"))
    if move.back is not None:
        return replace(move, cause=Cause(IncidentKind.RESOLVED, "reverted", until=move.back.commit))
    between = move.stretch.last - move.stretch.first - 1 or not neighbours
    met = coincidence(seen, move.step, between > 0) if move.step and not move.convicted else None
    if met:
        cause = Cause(IncidentKind.ENVIRONMENT, "environment", met.observed)
        return replace(move, cause=cause, ambiguous=met.ambiguous and not move.refuted)
    return replace(move, cause=Cause(IncidentKind.MACHINE, "refuted")) if move.refuted else move


def cost_of(change: ChangePoint) -> float:
    """The log shift of a step, positive where things got worse; without a ratio, as after nothing, it has no end."""
    worse = (change.after > change.before) == (change.series.metric.direction == "lower")
    possible = change.before > 0 and change.after > 0
    size = abs(math.log(change.after / change.before)) if possible else math.inf
    return size if worse else -size


def _standing(costs: Sequence[float], bar: float) -> bool:
    """Whether the moves since have never taken it back to within half the bar."""
    return all(math.isnan(total) or total > bar / 2 for total in itertools.accumulate(costs))


def _stretch(step: Boundary, first: int, last: int, seen: Sequence[Seen], place: Mapping[str, int]) -> Stretch:
    """Where on the line the step may have come, with the points beside where it may have come as well."""
    at = [place.get(one.sha, -1) for one in seen]
    beside = [
        (at[k - 1], at[k], drop_of_likelihood(step.sigmas, abs(k - step.at)))
        for k in range(max(1, step.at - step.uncertainty), min(len(seen), step.at + step.uncertainty + 1))
        if k != step.at and -1 < at[k - 1] < at[k]
    ]
    return Stretch(first, last, max(step.weight, COIN), tuple(beside))


def order(move: Move) -> tuple[object, ...]:
    """The same order however the change points were found."""
    series = move.change.series
    return (
        move.stretch.first, move.stretch.last, series.label, series.machine.label, series.variant.label,
        series.benchmark.version, series.harness, series.metric.unit, repr(series), move.change.commit,
    )  # fmt: skip
