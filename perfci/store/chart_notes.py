"""Save and load the notes that people write at a commit. The caller owns the transaction ``tx``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.chart_notes import ChartNoteRow
from perfci.store.tables.measurements import SeriesRow

NOTES = ChartNoteRow.__table__


@dataclass(frozen=True, slots=True)
class ChartNote:
    """A note at a commit; without a ``series`` it is on every chart of the project."""

    id: int
    sha: str
    text: str
    author: str
    created_at: datetime
    series: Series | None = None
    series_identity: str | None = None


def add_chart_note(
    tx: Session, project_id: int, sha: str, series_id: int | None, text: str, *, author: str, at: datetime
) -> int:
    """Store a note; return its id."""
    row = {
        "project_id": project_id,
        "series_id": series_id,
        "sha": sha,
        "text": text,
        "author": author,
        "created_at": at,
    }
    return int(tx.execute(sa.insert(NOTES).returning(NOTES.c.id), row).scalar_one())


def delete_chart_note(tx: Session, project_id: int, note_id: int) -> ChartNote | None:
    """Delete a note; return what it said, or None where there is none."""
    note = find_chart_note(tx, project_id, note_id)
    if note is not None:
        tx.execute(sa.delete(NOTES).where(NOTES.c.id == note_id))
    return note


def find_chart_note(tx: Session, project_id: int, note_id: int) -> ChartNote | None:
    """Find a note of a project by its id."""
    return next(iter(_load(tx, NOTES.c.project_id == project_id, NOTES.c.id == note_id)), None)


def list_chart_notes(
    tx: Session,
    project_id: int,
    *,
    series_id: int | None = None,
    sha: str = "",
    after: int = 0,
    limit: int | None = None,
) -> list[ChartNote]:
    """List notes in their order: all, those on the chart of a series, or those at a commit."""
    conditions: list[Any] = [NOTES.c.project_id == project_id, NOTES.c.id > after]
    if series_id is not None:
        conditions.append(sa.or_(NOTES.c.series_id == series_id, NOTES.c.series_id.is_(None)))
    if sha:
        conditions.append(NOTES.c.sha == sha)
    return _load(tx, *conditions, limit=limit)


def _load(tx: Session, *conditions: sa.ColumnElement[bool], limit: int | None = None) -> list[ChartNote]:
    query = (
        sa.select(*NOTES.c, SeriesRow.identity)
        .outerjoin(SeriesRow, NOTES.c.series_id == SeriesRow.id)
        .where(*conditions)
        .order_by(NOTES.c.id)
        .limit(limit)
    )
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows if row.series_id is not None})
    return [
        ChartNote(
            row.id,
            row.sha,
            row.text,
            row.author,
            row.created_at,
            series.get(row.series_id),
            row.identity,
        )
        for row in rows
    ]
