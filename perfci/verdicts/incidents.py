"""Change points of many series become incidents: one commit range, what moved there, and who or what is suspected.

First each step is asked whether the code can be blamed at all: not for a state of the machine, a level that went away
by itself, or a step that came with another environment. What is left is grouped by commit (FBDetect, SOSP 2024, does
so to page once), and a group that a canary shares, or most unrelated benchmarks, is the machine's after all.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from perfci.model import (
    ChangePoint,
    Commit,
    Incident,
    IncidentKind,
    Machine,
    ObservedChange,
    Series,
    Stage,
    Suspect,
    Verdict,
    VerdictKind,
)
from perfci.verdicts.boundaries import MOST_LIKELY, SETTLED_POINTS, Boundary, Seen, boundary
from perfci.verdicts.compare import MOVES
from perfci.verdicts.epochs import coincidence
from perfci.verdicts.grouping import Stretch, common, drop_of_likelihood, groups, scores
from perfci.verdicts.neighbours import Rules, plainly
from perfci.verdicts.recurrence import machine_states, went_away

MOST_SUSPECTS = 10
"""Commits that are ranked; the range says which others there are."""


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
    of a series at a commit; ``peers`` how many series of a unit a machine measures.
    """

    project: str
    line: Sequence[Commit]
    seen: Mapping[Series, Sequence[Seen]] = field(default_factory=dict)
    convictions: Mapping[tuple[Series, str], Verdict] = field(default_factory=dict)
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
    def exact(self) -> bool:
        return self.step is not None and self.step.exact

    @property
    def settled(self) -> bool:
        """Whether three points, fresh pairs or an exact count speak for it."""
        return self.convicted or self.exact or (self.step is not None and self.step.points >= SETTLED_POINTS)

    @property
    def p_value(self) -> float:
        if self.convicted and self.verdict is not None and self.verdict.p_value is not None:
            return self.verdict.p_value
        return self.step.p_value if self.step else 1.0


def incidents(changes: Sequence[ChangePoint], known: Known) -> list[Incident]:
    """Every change point in exactly one incident; newest range first, then by evidence."""
    place = {commit.sha: at for at, commit in enumerate(known.line)}
    moves = sorted(_moves(changes, known, place), key=_order)
    by_cause: dict[Cause, list[Move]] = defaultdict(list)
    for move in moves:
        by_cause[move.cause].append(move)
    found = []
    for cause, alike in by_cause.items():
        for positions in groups([move.stretch for move in alike]):
            found.append(_incident(cause, [alike[k] for k in positions], known))
    return sorted(found, key=lambda one: (-place.get(one.commit, -1), one.p_value, one.id))


# ------------------------------------------------------------------ each step by itself


def _moves(changes: Sequence[ChangePoint], known: Known, place: Mapping[str, int]) -> Iterable[Move]:
    of_series: dict[Series, list[ChangePoint]] = defaultdict(list)
    for change in changes:
        of_series[change.series].append(change)
    for series, steps in of_series.items():
        yield from _of_series(series, sorted(steps, key=lambda one: place.get(one.commit, -1)), known, place)


def _of_series(series: Series, steps: Sequence[ChangePoint], known: Known, place: Mapping[str, int]) -> Iterable[Move]:
    bar = math.log1p(known.rules(series).bar)
    seen, shas = known.seen.get(series, ()), [step.commit for step in steps]
    hops, gone = machine_states(steps), went_away(steps, place, bar / 2)
    returns = {back.commit for back in gone.values()}
    costs = [cost_of(step) for step in steps]
    for k, step in enumerate(steps):
        if step.commit in returns and step.commit not in hops:
            continue
        around = boundary(seen, step.commit, shas)
        move = Move(
            step,
            _stretch(step, around, seen, place),
            costs[k],
            CODE,
            around,
            known.convictions.get((series, step.commit)),
            standing=_standing(costs[k:], bar),
            back=None if step.commit in hops else gone.get(step.commit),
        )
        yield _explained(move, seen, hops, place)


def _explained(move: Move, seen: Sequence[Seen], hops: set[str], place: Mapping[str, int]) -> Move:
    """Blame the code last; fresh pairs, measured in one environment on one machine, outrank every other sign."""
    refuted = move.verdict is not None and move.verdict.kind is VerdictKind.UNCHANGED
    if move.change.commit in hops:
        return replace(move, cause=Cause(IncidentKind.MACHINE, "states"))
    if move.back is not None:
        return replace(move, cause=Cause(IncidentKind.RESOLVED, "reverted", until=move.back.commit))
    between = max(0, move.stretch.last - move.stretch.first - 1)
    met = coincidence(seen, move.step, between) if move.step and not move.convicted else None
    if met:
        cause = Cause(IncidentKind.ENVIRONMENT, "environment", met.observed)
        return replace(move, cause=cause, ambiguous=met.ambiguous and not refuted)
    return replace(move, cause=Cause(IncidentKind.MACHINE, "refuted")) if refuted else move


def cost_of(change: ChangePoint) -> float:
    """The log shift of a step, positive where things got worse; without a ratio, as after nothing, it has no end."""
    worse = (change.after > change.before) == (change.series.metric.direction == "lower")
    possible = change.before > 0 and change.after > 0
    size = abs(math.log(change.after / change.before)) if possible else math.inf
    return size if worse else -size


def _standing(costs: Sequence[float], bar: float) -> bool:
    """Whether the moves since have never taken it back to within half the bar."""
    return all(math.isnan(total) or total > bar / 2 for total in itertools.accumulate(costs))


def _stretch(change: ChangePoint, step: Boundary | None, seen: Sequence[Seen], place: Mapping[str, int]) -> Stretch:
    """Where on the line the step may have come; a commit that is not on the line stands before all others."""
    last = place.get(change.commit, 0)
    first = min(place.get(change.last_good, last - 1), last - 1)
    if step is None:
        return Stretch(first, last, -math.log(0.5))
    at = [place.get(one.sha, -1) for one in seen]
    beside = [
        (at[k - 1], at[k], drop_of_likelihood(step.sigmas, abs(k - step.at)))
        for k in range(max(1, step.at - step.uncertainty), min(len(seen), step.at + step.uncertainty + 1))
        if k != step.at and -1 < at[k - 1] < at[k]
    ]
    return Stretch(first, last, max(step.weight, -math.log(0.5)), tuple(beside))


# ------------------------------------------------------------------ all of a group


def _incident(cause: Cause, moves: Sequence[Move], known: Known) -> Incident:
    first, last = common([move.stretch for move in moves])
    largest = sorted(moves, key=lambda move: (-abs(move.cost), *_order(move)))
    back = [move.back for move in largest if move.back is not None]
    worse = [move for move in moves if move.cost > 0]
    kind = cause.kind or _kind(len(worse), len(moves))
    good, bad = _sha(known.line, first, moves[0].change.last_good), _sha(known.line, last, moves[0].change.commit)
    asking = worse or moves
    visits = [visit for move in moves if (visit := known.visit(move.change))]
    ambiguous = any(move.ambiguous for move in moves)
    return Incident(
        id=identity(known.project, good, bad, kind, cause),
        kind=kind,
        last_good=good,
        commit=bad,
        members=(*(move.change for move in largest), *back),
        suspects=() if kind in NOBODY else _suspects(moves, first, last, known.line),
        cause=cause.word,
        observed=cause.observed,
        ambiguous=ambiguous,
        until=cause.until,
        sessions=tuple(sorted({visit.session for visit in visits})),
        p_value=min(move.p_value for move in asking),
        settled=any(move.settled for move in asking),
        convicted=any(move.convicted for move in asking),
        standing=any(move.standing for move in worse) and cause.kind is None,
        measure=(good, bad) if good != bad and not any(move.verdict for move in moves) else None,
        measured_at=min((visit.started_at for visit in visits), default=None),
    )


NOBODY = frozenset({IncidentKind.ENVIRONMENT, IncidentKind.MACHINE})
"""Kinds that blame no commit."""


def _kind(worse: int, moves: int) -> IncidentKind:
    if worse == moves:
        return IncidentKind.REGRESSION
    return IncidentKind.MIXED if worse else IncidentKind.IMPROVEMENT


def _suspects(moves: Sequence[Move], first: int, last: int, line: Sequence[Commit]) -> tuple[Suspect, ...]:
    """Commits of the range, those that most evidence points at first; among equals the older."""
    stretches = [move.stretch for move in moves]
    start = min(lo for one in stretches for lo, _, _ in one.likelihood)
    weight = scores(stretches)
    ranked = sorted(range(first + 1, last + 1), key=lambda at: (-round(float(weight[at - start - 1]), 9), at))
    return tuple(
        Suspect(line[at], sum(one.may_be(at) for one in stretches), float(weight[at - start - 1]))
        for at in ranked[:MOST_SUSPECTS]
        if 0 <= at < len(line)
    )


def identity(project: str, last_good: str, commit: str, kind: IncidentKind, cause: Cause) -> str:
    """A short name that stays the same as long as range and kind do."""
    parts = (project, last_good, commit, kind.value, cause.word, repr(cause.observed), cause.until, cause.session)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _sha(line: Sequence[Commit], at: int, otherwise: str) -> str:
    return line[at].sha if 0 <= at < len(line) else otherwise


def _order(move: Move) -> tuple[object, ...]:
    """The same order however the change points were found."""
    series = move.change.series
    return (
        move.stretch.first, move.stretch.last, series.label, series.machine.label, series.variant.label,
        series.benchmark.version, series.harness, series.metric.unit, repr(series), move.change.commit,
    )  # fmt: skip


def convictions(verdicts: Iterable[Verdict]) -> dict[tuple[Series, str], Verdict]:
    """What fresh pairs said of each series at each commit; the first of several counts, so give the newest first."""
    found: dict[tuple[Series, str], Verdict] = {}
    for verdict in verdicts:
        if verdict.stage is Stage.CONVICTION and verdict.base != verdict.head:
            found.setdefault((verdict.series, verdict.head), verdict)
    return found


__all__ = ["MOST_LIKELY", "Cause", "Known", "Move", "Visit", "convictions", "cost_of", "identity", "incidents"]
