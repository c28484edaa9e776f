"""What pull requests and commits announced of changes that came to the main branch. The caller owns ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import insert_or_ignore
from perfci.store.queries.loaders import project_of
from perfci.store.tables.incidents import AnnouncementRow
from perfci.store.writes.row_ids import table

ANNOUNCEMENTS = table(AnnouncementRow)


@dataclass(frozen=True, slots=True)
class AnnouncementRecord:
    """``sha`` brought the change at ``arrived_at``; ``source`` is where it was announced: ``#12``, or a commit."""

    sha: str
    match: str
    change: float
    reason: str
    source: str
    arrived_at: datetime | None = None


FIELDS = tuple(AnnouncementRecord.__dataclass_fields__)


def add(tx: Session, project_id: int, told: Sequence[AnnouncementRecord], by: str, at: datetime) -> int:
    """How many of them nobody told before: of a commit, one name and one size of change the first stays."""
    statement = insert_or_ignore(tx, AnnouncementRow, "id")
    rows = [asdict(one) | {"project_id": project_id, "told_by": by, "told_at": at} for one in told]
    return sum(tx.scalar(statement, row) is not None for row in rows)


@dataclass(frozen=True, slots=True)
class AnnouncementLine:
    """An announcement as a list shows it: who told it, and when."""

    id: int
    record: AnnouncementRecord
    told_by: str
    told_at: datetime


def lines(tx: Session, project_id: int, *, before: int, limit: int) -> list[AnnouncementLine]:
    """A page of them, last told first; ``before`` is the last id of the page before, 0 on the first."""
    query = sa.select(*ANNOUNCEMENTS.c).where(ANNOUNCEMENTS.c.project_id == project_id)
    query = query.where(ANNOUNCEMENTS.c.id < before) if before else query
    rows = tx.execute(query.order_by(ANNOUNCEMENTS.c.id.desc()).limit(limit))
    return [
        AnnouncementLine(row.id, AnnouncementRecord(*(getattr(row, name) for name in FIELDS)), row.told_by, row.told_at)
        for row in rows
    ]


def of_project(tx: Session, project: str) -> list[AnnouncementRecord]:
    """All of a project, in the order in which they were told."""
    query = sa.select(*(ANNOUNCEMENTS.c[name] for name in FIELDS)).order_by(ANNOUNCEMENTS.c.id)
    return [
        AnnouncementRecord(*row) for row in tx.execute(query.where(project_of(ANNOUNCEMENTS.c.project_id, project)))
    ]
