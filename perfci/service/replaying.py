"""What is stored, judged again by another policy: nothing is measured, and nothing is written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Process, Role, Series, Verdict, VerdictKind
from perfci.service.confirming import FALSE_DISCOVERY_RATE
from perfci.service.recording import imported_changes
from perfci.stats.interval import Prior
from perfci.store import Store
from perfci.store.reads import (
    change_points,
    histories,
    series_of_project,
    session_processes,
    sessions,
    verdict_records,
)
from perfci.store.records import MeasuredProcess, SessionRecord, VerdictRecord
from perfci.verdicts.compare import MOVES, control, decide, screen
from perfci.verdicts.gating import ByCommit, gated, gated_by_commit
from perfci.verdicts.history import change_points as moves_of
from perfci.verdicts.levels import place_of
from perfci.verdicts.neighbours import pair_spreads
from perfci.verdicts.policy import Policy

BY_NUMBERS = (*MOVES, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""The verdicts a policy has a say in; a crash or a missing side is none of them."""


@dataclass(frozen=True, slots=True)
class ReplayedVerdict:
    """A current verdict as it is stored, and as it would be now; absent where the series is not judged any more."""

    stored: Verdict
    now: Verdict | None

    @property
    def differs(self) -> bool:
        return self.now is None or self.now.kind is not self.stored.kind


@dataclass(frozen=True, slots=True)
class ReplayedHistory:
    """The change points of one series as they are stored, and as they would be now."""

    series: Series
    stored: Sequence[ChangePoint]
    now: Sequence[ChangePoint]

    @property
    def gone(self) -> list[ChangePoint]:
        return _others(self.stored, self.now)

    @property
    def new(self) -> list[ChangePoint]:
        return _others(self.now, self.stored)

    @property
    def differs(self) -> bool:
        return bool(self.gone or self.new)


@dataclass(frozen=True, slots=True)
class Replay:
    verdicts: Sequence[ReplayedVerdict]
    histories: Sequence[ReplayedHistory]


def replay(store: Store, project: str, policy: Policy) -> Replay:
    """Judge every stored comparison and every history of a project again."""
    with store.read() as tx:
        return Replay(list(_replayed_verdicts(tx, project, policy)), list(_replayed_histories(tx, project, policy)))


# ------------------------------------------------------------------ comparisons


def _replayed_verdicts(tx: Transaction, project: str, policy: Policy) -> Iterator[ReplayedVerdict]:
    """Session by session, the oldest first: only one has its samples in memory."""
    records = [record for record in verdict_records(tx, project) if record.verdict.kind in BY_NUMBERS]
    ever = verdict_records(tx, project, current_only=False)
    known = sessions(tx, project)
    equals = {session.uid for session in known if session.kind == "aa"}
    for session in reversed(known):
        mine = [record for record in reversed(records) if record.session_uid == session.uid]
        if mine:
            noise = _noise_before(mine[0].created_at, [record for record in ever if record.session_uid in equals])
            stored = [record.verdict for record in mine]
            yield from _of_session(session, stored, session_processes(tx, session.uid), policy, noise)


def _noise_before(moment: datetime, equals: Sequence[VerdictRecord]) -> dict[Series, list[float]]:
    """What comparisons of a commit with itself had come to when a verdict was given: the policy alone is replayed."""
    found: dict[Series, list[float]] = {}
    for record in reversed(equals):
        if record.verdict.ratio and record.created_at < moment:
            found.setdefault(record.verdict.series, []).append(math.log(record.verdict.ratio))
    return found


def _of_session(
    session: SessionRecord, stored: Sequence[Verdict], rows: Sequence[MeasuredProcess], policy: Policy,
    noise: Mapping[Series, Sequence[float]],
) -> list[ReplayedVerdict]:  # fmt: skip
    judged = [verdict for verdict in stored if policy.judges(verdict.series)]
    if session.kind == "history":
        again = _screened(judged, rows, policy)
    else:
        again = [_decided(verdict, rows, policy, noise.get(verdict.series, ())) for verdict in judged]
    if session.kind == "confirm":
        again = control(again, FALSE_DISCOVERY_RATE)
    now = dict(zip(map(id, judged), again, strict=True))
    return [ReplayedVerdict(verdict, now.get(id(verdict))) for verdict in stored]


def _screened(stored: Sequence[Verdict], rows: Sequence[MeasuredProcess], policy: Policy) -> list[Verdict]:
    """As a session in rounds screens its neighbours; what has no samples here stays as it is."""
    measured = _by_series(rows)
    spreads = pair_spreads(measured, [(verdict.base, verdict.head) for verdict in stored])
    return [
        _screened_one(verdict, measured.get(verdict.series, {}), policy, spreads.get(verdict.series))
        for verdict in stored
    ]


def _screened_one(verdict: Verdict, by_sha: ByCommit, policy: Policy, spread: Prior | None) -> Verdict:
    base, head = by_sha.get(verdict.base, []), by_sha.get(verdict.head, [])
    if not base or not head:
        return verdict
    return screen(
        verdict.series, verdict.base, verdict.head, base, head,
        rule=policy.rule_for(verdict.series), prior_sd=spread.sd if spread else None,
    )  # fmt: skip


def _decided(verdict: Verdict, rows: Sequence[MeasuredProcess], policy: Policy, noise: Sequence[float]) -> Verdict:
    """As a look at all pairs that were bought."""
    mine = [row for row in rows if row.series.cell == verdict.series.cell and row.sha in (verdict.base, verdict.head)]
    by_sha = _by_series(mine).get(verdict.series, {})
    sides = [
        {p.pair: p for p in by_sha.get(sha, ()) if p.role is role and p.pair is not None}
        for sha, role in ((verdict.base, Role.BASE), (verdict.head, Role.HEAD))
    ]
    both = sorted(sides[0].keys() & sides[1].keys())
    if not both:
        return verdict
    base, head = ([side[pair] for pair in both] for side in sides)
    rule = policy.rule_for(verdict.series)
    return decide(verdict.series, verdict.base, verdict.head, base, head, rule=rule, aa=noise, stage=verdict.stage)[0]


def _by_series(rows: Iterable[MeasuredProcess]) -> dict[Series, ByCommit]:
    measured: dict[str, list[tuple[Series, Process]]] = {}
    for row in rows:
        measured.setdefault(row.sha, []).append((row.series, row.process))
    return gated_by_commit(measured)


# ------------------------------------------------------------------ histories


def _replayed_histories(tx: Transaction, project: str, policy: Policy) -> Iterator[ReplayedHistory]:
    """Every series that is judged, or was; witnesses have no change points."""
    stored: dict[Series, list[ChangePoint]] = {}
    for change in change_points(tx, project):
        stored.setdefault(change.series, []).append(change)
    imported = imported_changes(tx, project, policy)
    records = sorted(series_of_project(tx, project), key=lambda row: repr(place_of(row.series)))
    for _, group in groupby(records, key=lambda row: place_of(row.series)):
        rows = list(group)
        points = histories(tx, [row.id for row in rows])
        processes = {row.series: [p for point in points[row.id] for p in point.processes] for row in rows}
        judged = set(gated(processes))
        for row in rows:
            now = imported.get(row.series, [])
            if row.series not in imported and row.series in judged and policy.judges(row.series):
                now = moves_of(row.series, points[row.id], rule=policy.rule_for(row.series))
            yield ReplayedHistory(row.series, stored.get(row.series, []), now)


def _others(some: Sequence[ChangePoint], known: Sequence[ChangePoint]) -> list[ChangePoint]:
    commits = {change.commit for change in known}
    return [change for change in some if change.commit not in commits]
