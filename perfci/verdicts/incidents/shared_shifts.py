"""Shifts that no code explains: those a canary shares, those most unrelated benchmarks share, and bad days."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from perfci.model import IncidentKind, Machine
from perfci.verdicts.incidents.bad_sessions import Alert, bad_days
from perfci.verdicts.incidents.step_causes import CODE, Cause, Known, Move, Visit

SIMILAR = math.log(2)
"""Shifts up to a factor of two apart are alike: of a larger one more would be left than the shared shift explains."""

UNRELATED = 3
"""Two suites may share the code that got slower; that three or more do, and most of the machine's series in the same
unit, at the same moment and by the same size, is what a machine does."""

Parts = list[tuple[Cause, list[Move]]]


def of_bad_days(moves: Sequence[Move], known: Known) -> list[Move]:
    """Give what stood out in a session that had something the matter with its machine that cause.

    A level that later sessions saw as well is no matter of a day.
    """
    visits = [_session_of(move, known) for move in moves]
    alerts = [
        Alert(move.change.series, visit.session, move.cost > 0)
        for move, visit in zip(moves, visits, strict=True)
        if visit
    ]
    suites: dict[tuple[str, Machine], set[str]] = defaultdict(set)
    for alert in alerts:
        suites[alert.session, alert.series.machine].add(suite_of(alert.series.benchmark.name))
    bad = {(day.session, day.machine) for day in bad_days(alerts)}
    bad = {place for place in bad if len(suites[place]) >= UNRELATED}
    return [
        replace(move, cause=Cause(IncidentKind.MACHINE, "bad day", session=visit.session))
        if visit and (visit.session, move.change.series.machine) in bad
        else move
        for move, visit in zip(moves, visits, strict=True)
    ]


def _session_of(move: Move, known: Known) -> Visit | None:
    """The session whose machine may be to blame for a step; None where code, or more than one session, is."""
    visit = known.visit(move.change) if _may_be_the_machine(move, known) else None
    return visit if visit and known.only_in(move, visit) else None


def shared(group: Sequence[Move], known: Known) -> Parts:
    """Part one group of steps into what its machines share, and what is left for the code."""
    parts: Parts = []
    left = list(group)
    for machine in sorted({move.change.series.machine for move in group}, key=repr):
        for unit in sorted({move.change.series.metric.unit for move in group}):
            mine = [m for m in left if m.change.series.machine == machine and m.change.series.metric.unit == unit]
            word, alike = _by_canary(mine, known) or _by_most(mine, known, known.peers.get((machine, unit), 0))
            if alike:
                parts.append((Cause(IncidentKind.MACHINE, word), alike))
                left = [move for move in left if not any(move is one for one in alike)]
    return [*parts, (CODE, left)] if left else parts


def _by_canary(moves: Sequence[Move], known: Known) -> tuple[str, list[Move]] | None:
    """What moved as a canary did, which no commit touches; the canary itself is the machine's anyway."""
    canaries = [move for move in moves if known.canary(move.change.series)]
    if not canaries:
        return None
    size = statistics.median(move.cost for move in canaries)
    alike = [m for m in moves if m in canaries or (_may_be_the_machine(m, known) and _similar(m.cost, size))]
    return "canary", alike


def _by_most(moves: Sequence[Move], known: Known, peers: int) -> tuple[str, list[Move]]:
    """What most series of a machine did alike, in suites that have nothing to do with each other."""
    able = [move for move in moves if _may_be_the_machine(move, known) and math.isfinite(move.cost)]
    if not able:
        return "", []
    size = statistics.median(move.cost for move in able)
    alike = [move for move in able if _similar(move.cost, size)]
    suites = {suite_of(move.change.series.benchmark.name) for move in alike}
    return ("most", alike) if len(suites) >= UNRELATED and 2 * len(alike) > peers > 0 else ("", [])


def _may_be_the_machine(move: Move, known: Known) -> bool:
    """Not what fresh pairs confirmed, what counts exactly, or what was measured in rounds with the commit before."""
    return move.cause == CODE and not move.convicted and not move.exact and known.apart(move.change)


def _similar(one: float, other: float) -> bool:
    alike = one * other > 0 and math.isfinite(one) and math.isfinite(other)
    return alike and abs(math.log(one / other)) <= SIMILAR


def suite_of(benchmark: str) -> str:
    """The file a benchmark comes from: ``training`` of ``training.Step.time_step``."""
    return benchmark.partition(".")[0]
