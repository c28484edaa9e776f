"""Save the points of series, and mark those that do not hold any more. The caller owns ``tx``.

Newer results need no mark: a reader sees that they are newer. Whoever changes what is older marks it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.column_conversions import EPOCH, MILLISECOND
from perfci.store.projects import mark_projects_changed
from perfci.store.queries.series_points import PointBlock, SeriesPointsRecord
from perfci.store.tables.measurements import ProjectRow, ResultRow
from perfci.store.tables.series_points import PointBlockRow, SeriesPointsRow
from perfci.store.transactions import bulk_insert, in_chunks

POINTS, BLOCKS = SeriesPointsRow.__table__, PointBlockRow.__table__
COLUMNS = ("project_id", "stale", *SeriesPointsRecord.__dataclass_fields__)
DATES = frozenset(("failing_since", "last_value_at"))


@dataclass(frozen=True, slots=True)
class SeriesPointsUpdate:
    """The record of a series, and its blocks from the first one that changed; those after it are replaced."""

    record: SeriesPointsRecord
    first_block: int
    blocks: Sequence[PointBlock]


def save_series_points(tx: Session, project: str, updates: Sequence[SeriesPointsUpdate]) -> None:
    """Replace the records of series and the blocks that changed."""
    project_id = tx.scalar(sa.select(ProjectRow.id).where(ProjectRow.slug == project))
    for some in in_chunks([update.record.series_id for update in updates]):
        tx.execute(sa.delete(POINTS).where(POINTS.c.series_id.in_(some)))
    for update in updates:
        mine = (BLOCKS.c.series_id == update.record.series_id, BLOCKS.c.block >= update.first_block)
        tx.execute(sa.delete(BLOCKS).where(*mine))
    bulk_insert(
        tx, POINTS, COLUMNS, [(project_id, False, *_record_values(update.record)) for update in updates]
    )
    rows = [
        (update.record.series_id, block.block, block.levels, block.details)
        for update in updates
        for block in update.blocks
    ]
    bulk_insert(tx, BLOCKS, ("series_id", "block", "levels", "details"), rows)
    if updates and project_id is not None:
        mark_projects_changed(tx, [project_id])


def delete_series_points(tx: Session, series_ids: Collection[int]) -> None:
    """Delete the stored points of series: all of them are derived again."""
    for some in in_chunks(series_ids):
        tx.execute(sa.delete(POINTS).where(POINTS.c.series_id.in_(some)))
        tx.execute(sa.delete(BLOCKS).where(BLOCKS.c.series_id.in_(some)))


def mark_series_points_stale(tx: Session, series_ids: Collection[int]) -> None:
    """Mark the points of series: something of them changed that a newer result does not show."""
    for some in in_chunks(series_ids):
        _mark(tx, POINTS.c.series_id.in_(some))


def mark_points_of_run_stale(tx: Session, run_id: int, series_id: int | None = None) -> None:
    """Mark the points that a run gave, or only those of one series."""
    if series_id is not None:
        _mark(tx, POINTS.c.series_id == series_id)
        return
    _mark(tx, POINTS.c.series_id.in_(sa.select(ResultRow.series_id).where(ResultRow.run_id == run_id)))


def mark_points_of_project_stale(tx: Session, project_id: int) -> None:
    """Mark all points of a project: its commits may stand in another order."""
    _mark(tx, POINTS.c.project_id == project_id)


def _mark(tx: Session, condition: sa.ColumnElement[bool]) -> None:
    tx.execute(sa.update(POINTS).where(condition, POINTS.c.stale.is_(False)).values(stale=True))


def _record_values(record: SeriesPointsRecord) -> list[object]:
    values: list[object] = []
    for name, value in zip(SeriesPointsRecord.__dataclass_fields__, astuple(record), strict=True):
        if name in DATES and value is not None:
            value = (value - EPOCH) // MILLISECOND
        values.append(value._value_ if name == "last_status" else value)
    return values
