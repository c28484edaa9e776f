"""Ask for parts of many histories at once: where and when commits were measured, and some points of some series."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Machine, Point
from perfci.store.coordinates import CHUNK
from perfci.store.endings import in_chunks
from perfci.store.loading import HISTORY_KINDS, load_machines, load_points, project_of
from perfci.store.order import along_the_line
from perfci.store.tables import CommitRow, ResultRow, RunRow, SessionRow


@dataclass(frozen=True, slots=True)
class VisitRecord:
    """A session that measured a commit on a machine, and when it first did."""

    sha: str
    machine: Machine
    session: str
    kind: str
    rounds: int
    started_at: datetime


def visits(tx: Session, project: str) -> list[VisitRecord]:
    """Which sessions measured which commits of the line on which machines, the earliest first."""
    columns = (CommitRow.sha, RunRow.machine_id, SessionRow.uid, SessionRow.kind, SessionRow.rounds)
    started = sa.func.min(RunRow.started_at, type_=RunRow.started_at.type)
    query = (
        sa.select(*columns, started.label("started_at"))
        .select_from(RunRow)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(
            project_of(CommitRow.project_id, project), SessionRow.kind.in_(HISTORY_KINDS), CommitRow.dirty.is_(False)
        )
        .group_by(*columns)
        .order_by(started, SessionRow.uid, CommitRow.sha)
    )
    machines = load_machines(tx)
    return [
        VisitRecord(row.sha, machines[row.machine_id], row.uid, row.kind, row.rounds, row.started_at)
        for row in tx.execute(query)
    ]


def points_at(tx: Session, project: str, wanted: Mapping[int, Collection[str]]) -> dict[int, list[Point]]:
    """The points of some series at the commits wanted of each, oldest first."""
    ids = dict(
        tx.execute(sa.select(CommitRow.sha, CommitRow.id).where(project_of(CommitRow.project_id, project))).all()
    )
    found: dict[int, list[Point]] = {series_id: [] for series_id in wanted}
    for some in in_chunks(wanted):
        commits = sorted({ids[sha] for series_id in some for sha in wanted[series_id] if sha in ids})
        for start in range(0, len(commits), CHUNK):
            chosen = sa.and_(ResultRow.series_id.in_(some), RunRow.commit_id.in_(commits[start : start + CHUNK]))
            for series_id, point in load_points(tx, chosen):
                if point.commit.sha in wanted[series_id]:
                    found[series_id].append(point)
    line = along_the_line({point.commit for points in found.values() for point in points})
    place = {commit: at for at, commit in enumerate(line)}
    return {row_id: sorted(points, key=lambda point: place[point.commit]) for row_id, points in found.items()}
