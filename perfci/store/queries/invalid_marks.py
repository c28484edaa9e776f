"""Load which runs and points are marked invalid, by whom and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import InvalidMark, Series
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import CommitRow, InvalidMarkRow, ResultRow, RunRow, SeriesRow
from perfci.store.transactions import in_chunks

LEVEL = sa.func.coalesce(ResultRow.level, ResultRow.value)

MarkPlace = tuple[int, int | None]
"""The id of a run, and of a series in it, or None for the whole run."""


@dataclass(frozen=True, slots=True)
class InvalidMarkRecord:
    """A mark with the run it is on; ``series`` and its ``level`` are given where it is on one point."""

    id: int
    run_id: int
    run_key: str
    sha: str
    mark: InvalidMark
    series_id: int | None
    series_identity: str | None
    series: Series | None
    level: float | None


def load_marks_of_runs(tx: Session, run_ids: Collection[int]) -> Mapping[MarkPlace, InvalidMark]:
    """Load the marks of some runs and of the results in them."""
    columns = InvalidMarkRow.__table__.c
    query = sa.select(*columns)
    rows = [
        row for some in in_chunks(run_ids) for row in tx.execute(query.where(columns.run_id.in_(some))).all()
    ]
    return {(row.run_id, row.series_id): _build_mark(row) for row in rows}


def list_invalid_marks(
    tx: Session, project_id: int, *, series_id: int | None = None, after: int = 0, limit: int | None = None
) -> list[InvalidMarkRecord]:
    """List the marks of a project in the order they were set; of one series, those of its runs too."""
    columns = InvalidMarkRow.__table__.c
    query = (
        sa.select(*columns, RunRow.key, CommitRow.sha, SeriesRow.identity, LEVEL.label("level"))
        .join(RunRow, columns.run_id == RunRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(columns.project_id == project_id, columns.id > after)
        .order_by(columns.id)
        .limit(limit)
    )
    on_result = sa.and_(ResultRow.run_id == columns.run_id, ResultRow.series_id == columns.series_id)
    if series_id is not None:
        on_result = sa.and_(ResultRow.run_id == columns.run_id, ResultRow.series_id == series_id)
        mine = sa.or_(columns.series_id == series_id, columns.series_id.is_(None))
        query = query.where(mine, ResultRow.id.is_not(None))
    query = query.outerjoin(ResultRow, on_result).outerjoin(SeriesRow, columns.series_id == SeriesRow.id)
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows if row.series_id is not None})
    return [
        InvalidMarkRecord(
            id=row.id,
            run_id=row.run_id,
            run_key=row.key,
            sha=row.sha,
            mark=_build_mark(row),
            series_id=row.series_id,
            series_identity=row.identity,
            series=series.get(row.series_id),
            level=row.level,
        )
        for row in rows
    ]


def _build_mark(row: Any) -> InvalidMark:
    return InvalidMark(row.reason, row.marked_by, row.marked_at)
