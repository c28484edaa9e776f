"""Archive series by hand and bring them back. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.store.queries.history_conditions import project_id_condition
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import SeriesRow
from perfci.store.tables.series_archive import ArchivedSeriesRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows, in_chunks

ARCHIVED = ArchivedSeriesRow.__table__


@dataclass(frozen=True, slots=True)
class ArchivedSeries:
    """A series that somebody archived: when, and why."""

    id: int
    series_id: int
    series: Series
    series_identity: str
    reason: str
    archived_by: str
    archived_at: datetime


def not_archived_condition(series_id: Any) -> sa.ColumnElement[bool]:
    """Build the condition that nobody archived the series of a column."""
    mine = sa.select(ARCHIVED.c.id).where(ARCHIVED.c.series_id == series_id)
    return sa.not_(mine.correlate_except(ARCHIVED).exists())


def load_archived_by_hand_ids(tx: Session, project: str) -> frozenset[int]:
    """Load the ids of the series of a project that somebody archived."""
    mine = project_id_condition(ARCHIVED.c.project_id, project)
    return frozenset(tx.connection().scalars(sa.select(ARCHIVED.c.series_id).where(mine)))


def list_archived_series(
    tx: Session,
    project_id: int,
    *,
    series_ids: Collection[int] | None = None,
    after: int = 0,
    limit: int | None = None,
) -> list[ArchivedSeries]:
    """List the archived series of a project in the order in which they were archived, or some of them."""
    query = (
        sa.select(*ARCHIVED.c, SeriesRow.identity)
        .join(SeriesRow, ARCHIVED.c.series_id == SeriesRow.id)
        .where(ARCHIVED.c.project_id == project_id, ARCHIVED.c.id > after)
        .order_by(ARCHIVED.c.id)
        .limit(limit)
    )
    if series_ids is not None:
        query = query.where(ARCHIVED.c.series_id.in_(list(series_ids)))
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [
        ArchivedSeries(
            row.id,
            row.series_id,
            series[row.series_id],
            row.identity,
            row.reason,
            row.archived_by,
            row.archived_at,
        )
        for row in rows
    ]


def count_archived_by_hand(tx: Session, project_id: int) -> int:
    """Count the series of a project that somebody archived."""
    counted = sa.select(sa.func.count()).select_from(ARCHIVED)
    return tx.scalar(counted.where(ARCHIVED.c.project_id == project_id)) or 0


def archive_series(
    tx: Session, project_id: int, series_ids: Collection[int], reason: str, *, by: str, at: datetime
) -> int:
    """Archive series; return how many were not archived before. Those that were keep their reason."""
    statement = build_insert_or_ignore(tx, ArchivedSeriesRow, "id")
    shared = {"project_id": project_id, "reason": reason, "archived_by": by, "archived_at": at}
    added = (tx.scalar(statement, shared | {"series_id": series_id}) for series_id in sorted(series_ids))
    return sum(row_id is not None for row_id in added)


def bring_series_back(tx: Session, series_ids: Collection[int]) -> int:
    """Bring archived series back; return how many were archived."""
    return sum(
        execute_and_count_rows(tx, sa.delete(ARCHIVED).where(ARCHIVED.c.series_id.in_(some)))
        for some in in_chunks(series_ids)
    )
