"""Load where and when commits were measured, and the levels of some series there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Machine
from perfci.store.dialects import CHUNK, in_chunks
from perfci.store.queries.loaders import HISTORY_KINDS, Condition, load_machines, matches_project
from perfci.store.queries.result_summaries import ResultLevel, load_levels
from perfci.store.tables.measurements import CommitRow, ResultRow, RunRow, SessionRow

CommitLevel = tuple[str, ResultLevel]


@dataclass(frozen=True, slots=True)
class VisitRecord:
    """A session that measured a commit on a machine, and when it first did."""

    sha: str
    machine: Machine
    session: str
    kind: str
    rounds: int
    started_at: datetime


def load_visits(tx: Session, project: str) -> list[VisitRecord]:
    """Load which sessions measured which commits of the main line on which machines, earliest first."""
    columns = (CommitRow.sha, RunRow.machine_id, SessionRow.uid, SessionRow.kind, SessionRow.rounds)
    started = sa.func.min(RunRow.started_at, type_=RunRow.started_at.type)
    query = (
        sa.select(*columns, started.label("started_at"))
        .select_from(RunRow)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(
            matches_project(CommitRow.project_id, project),
            SessionRow.kind.in_(HISTORY_KINDS),
            CommitRow.dirty.is_(False),
        )
        .group_by(*columns)
        .order_by(started, SessionRow.uid, CommitRow.sha)
    )
    machines = load_machines(tx)
    return [
        VisitRecord(row.sha, machines[row.machine_id], row.uid, row.kind, row.rounds, row.started_at)
        for row in tx.execute(query)
    ]


def load_levels_at(
    tx: Session, project: str, shas: Collection[str], series: Collection[int]
) -> Iterator[CommitLevel]:
    """Load the levels of some series at some commits, with the sha of each, without reading samples."""
    names = _load_clean_shas(tx, project, shas)
    for chosen, wanted in _split_conditions(names, series):
        yield from ((names[row.commit_id], row) for row in load_levels(tx, chosen) if row.series_id in wanted)


MAX_SERIES_BY_ID = 2 * CHUNK
"""Up to this many series, results are found by series; of more by commit, most of whose results are needed.
"""


def _split_conditions(
    commits: Mapping[int, str], series: Collection[int]
) -> Iterator[tuple[Condition, Collection[int]]]:
    for few_commits in in_chunks(commits):
        of_commits = RunRow.commit_id.in_(few_commits)
        if len(series) > MAX_SERIES_BY_ID:
            yield of_commits, series
            continue
        for some in in_chunks(series):
            yield sa.and_(of_commits, ResultRow.series_id.in_(some)), some


def _load_clean_shas(tx: Session, project: str, shas: Collection[str]) -> dict[int, str]:
    """Load commits by id, without dirty working trees."""
    clean = (matches_project(CommitRow.project_id, project), CommitRow.dirty.is_(False))
    rows = tx.execute(sa.select(CommitRow.id, CommitRow.sha).where(*clean))
    return {row_id: sha for row_id, sha in rows if sha in shas}
