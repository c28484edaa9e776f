"""The level of every series at a commit, without reading a sample: what two commits are compared by at a glance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Boundaries, Process, Status
from perfci.store import values
from perfci.store.coordinates import table
from perfci.store.loading import HISTORY_KINDS
from perfci.store.tables import CommitRow, ProcessRow, ResultRow, RunRow, SessionRow

RESULTS, RUNS, COMMITS, SESSIONS = (table(row) for row in (ResultRow, RunRow, CommitRow, SessionRow))

SUMMARISED = sa.func.coalesce(RESULTS.c.level, RESULTS.c.value)


class LevelRow(NamedTuple):
    """How one result of a series ended at a commit; a commit that was measured twice has two."""

    series_id: int
    status: str
    level: float | None


def levels_at(tx: Session, project_id: int, sha: str) -> list[LevelRow]:
    """The results of one commit's history, in the order they were stored."""
    query = (
        sa.select(RESULTS.c.series_id, RESULTS.c.status, SUMMARISED)
        .join(RUNS, RESULTS.c.run_id == RUNS.c.id)
        .join(COMMITS, RUNS.c.commit_id == COMMITS.c.id)
        .join(SESSIONS, RUNS.c.session_id == SESSIONS.c.id)
        .where(COMMITS.c.project_id == project_id, COMMITS.c.sha == sha, COMMITS.c.dirty.is_(False))
        .where(SESSIONS.c.kind.in_(HISTORY_KINDS))
        .order_by(RESULTS.c.id)
    )
    return [LevelRow(*row) for row in tx.connection().execute(query)]


def without_level(tx: Session, run_keys: Sequence[str]) -> Iterator[tuple[int, list[Process]]]:
    """The results of some runs that have samples and no level yet, with their processes."""
    query = (
        sa.select(*table(ProcessRow).c)
        .join(RESULTS, ProcessRow.result_id == RESULTS.c.id)
        .join(RUNS, RESULTS.c.run_id == RUNS.c.id)
        .where(RUNS.c.key.in_(run_keys), RESULTS.c.level.is_(None))
        .where(RESULTS.c.status == Status.OK.value, RESULTS.c.boundaries == Boundaries.PROCESS.value)
        .order_by(ProcessRow.result_id, ProcessRow.id)
    )
    for result_id, rows in groupby(tx.connection().execute(query).all(), key=lambda row: row.result_id):
        yield result_id, [values.process_of(row) for row in rows]


def set_levels(tx: Session, levels: Mapping[int, float]) -> None:
    """Keep what the processes of results came to."""
    statement = sa.update(RESULTS).where(RESULTS.c.id == sa.bindparam("result")).values(level=sa.bindparam("came_to"))
    if levels:
        tx.connection().execute(statement, [{"result": key, "came_to": level} for key, level in sorted(levels.items())])
