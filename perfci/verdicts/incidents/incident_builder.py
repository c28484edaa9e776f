"""Change points of many series become incidents: one commit range, what moved there, and who or what is suspected.

First each step is asked whether the code can be blamed at all: not for a state of the machine, a level that went away
by itself, or a step that came with another environment. What is left is grouped by commit (FBDetect, SOSP 2024, does
so to page once), and what a canary shares, or most unrelated benchmarks, is the machine's after all.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from perfci.model import ChangePoint, Commit, Incident, IncidentKind, Machine, Suspect
from perfci.verdicts.history.recent_jumps import Jump
from perfci.verdicts.incidents.bad_sessions import Alert, bad_days
from perfci.verdicts.incidents.range_grouping import common, groups, scores
from perfci.verdicts.incidents.shared_shifts import of_bad_days, shared
from perfci.verdicts.incidents.step_causes import CODE, Cause, Known, Move, bare, moves_of, order

MOST_SUSPECTS = 10
"""Commits that are ranked; the range says which others there are."""

NOBODY = frozenset({IncidentKind.ENVIRONMENT, IncidentKind.MACHINE})
"""Kinds that blame no commit."""


ANSWERED = frozenset({"states", "reverted"})
"""Causes that a comparison of two commits would tell nothing new about."""


def incidents(changes: Sequence[ChangePoint], known: Known) -> list[Incident]:
    """Every change point in exactly one incident; newest range first, then by evidence."""
    place = {commit.sha: at for at, commit in enumerate(known.line)}
    moves = of_bad_days(moves_of(changes, known), known)
    found = [
        _incident(cause, part, known)
        for suspected, alike in _by_cause(moves).items()
        for group in _groups(alike)
        for cause, part in (shared(group, known) if suspected == CODE else [(suspected, group)])
    ]
    return sorted(found, key=lambda one: (-place.get(one.commit, -1), one.p_value, one.id))


def incidents_of_days(jumps: Sequence[Jump], known: Known) -> tuple[list[Incident], list[Jump]]:
    """One incident for each session that had something the matter with its machine, and the jumps of the others."""
    changes = [jump.change for jump in jumps]
    sessions = [visit.session if (visit := known.visit(change)) else "" for change in changes]
    alerts = [
        Alert(jump.series, session, jump.cost > 0, jump.stays) for jump, session in zip(jumps, sessions, strict=True)
    ]
    days = {(day.session, day.machine): day for day in bad_days(alerts) if day.session}
    found, single = [], []
    mine: dict[tuple[str, Machine], list[Move]] = defaultdict(list)
    for jump, change, session in zip(jumps, changes, sessions, strict=True):
        if (session, jump.series.machine) in days:
            mine[session, jump.series.machine].append(bare(change, known))
        else:
            single.append(jump)
    for (session, machine), moves in mine.items():
        day = days[session, machine]
        word = "rotating" if day.rotating else "bad day"
        found.append(_incident(Cause(IncidentKind.MACHINE, word, session=session), moves, known))
    return found, single


def _by_cause(moves: Sequence[Move]) -> dict[Cause, list[Move]]:
    found: dict[Cause, list[Move]] = defaultdict(list)
    for move in moves:
        found[move.cause].append(move)
    return found


def _groups(moves: Sequence[Move]) -> list[list[Move]]:
    return [[moves[k] for k in positions] for positions in groups([move.stretch for move in moves])]


def _incident(cause: Cause, moves: Sequence[Move], known: Known) -> Incident:
    first, last = common([move.stretch for move in moves])
    largest = sorted(moves, key=lambda move: (-abs(move.cost), *order(move)))
    back = [move.back for move in largest if move.back is not None]
    worse = [move for move in moves if move.cost > 0]
    kind = cause.kind or _kind(len(worse), len(moves))
    verdicts = [move.verdict for move in moves if move.verdict]
    good = _sha(known.line, first, [*(m.change.last_good for m in moves), *(one.base for one in verdicts)])
    bad = _sha(known.line, last, [*(m.change.commit for m in moves), *(one.head for one in verdicts)])
    asking = worse or moves
    visits = [visit for move in moves if (visit := known.visit(move.change))]
    ambiguous = any(move.ambiguous for move in moves)
    return Incident(
        id=identity(known.project, good, bad, kind, cause),
        kind=kind,
        last_good=good,
        commit=bad,
        members=(*(move.told for move in largest), *back),
        suspects=() if kind in NOBODY else _suspects(moves, first, last, known.line),
        cause=cause.word,
        observed=cause.observed,
        ambiguous=ambiguous,
        until=cause.until,
        sessions=tuple(sorted({visit.session for visit in visits})),
        p_value=min(move.p_value for move in asking),
        settled=any(move.settled for move in asking),
        convicted=sum(move.convicted for move in moves),
        standing=any(move.standing for move in worse) and cause.kind is None,
        measure=(good, bad) if cause.word not in ANSWERED and not any(move.verdict for move in moves) else None,
        measured_at=min((visit.started_at for visit in visits), default=None),
    )


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


def _sha(line: Sequence[Commit], at: int, named: Sequence[str]) -> str:
    """The commit at a place of the line; one that is not on it goes by the name its members give it."""
    return line[at].sha if 0 <= at < len(line) and line[at].sha in named else named[0]
