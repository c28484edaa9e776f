"""Store the expected changes that commits of the main branch announced. The caller owns ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import insert_or_ignore
from perfci.store.queries.loaders import matches_project
from perfci.store.tables.incidents import ExpectedChangeRow

EXPECTED_CHANGES = ExpectedChangeRow.__table__


@dataclass(frozen=True, slots=True)
class ExpectedChangeRecord:
    """An expected change: ``sha`` brought it at ``arrived_at``; ``source`` is ``#12`` or a commit."""

    sha: str
    match: str
    change: float
    reason: str
    source: str
    merged_at: datetime | None = None


FIELDS = tuple(ExpectedChangeRecord.__dataclass_fields__)


def add_expected_changes(
    tx: Session, project_id: int, changes: Sequence[ExpectedChangeRecord], actor: str, at: datetime
) -> int:
    """Add expected changes; return how many are new. The first of equal ones stays."""
    statement = insert_or_ignore(tx, ExpectedChangeRow, "id")
    rows = [
        asdict(change) | {"project_id": project_id, "recorded_by": actor, "recorded_at": at}
        for change in changes
    ]
    return sum(tx.scalar(statement, row) is not None for row in rows)


@dataclass(frozen=True, slots=True)
class ExpectedChangeListItem:
    """An expected change with its author and time, as lists show it."""

    id: int
    record: ExpectedChangeRecord
    recorded_by: str
    recorded_at: datetime


def list_expected_changes(
    tx: Session, project_id: int, *, before: int, limit: int
) -> list[ExpectedChangeListItem]:
    """List a page of expected changes, newest first, below the id ``before`` (0: from the start)."""
    query = sa.select(*EXPECTED_CHANGES.c).where(EXPECTED_CHANGES.c.project_id == project_id)
    query = query.where(EXPECTED_CHANGES.c.id < before) if before else query
    rows = tx.execute(query.order_by(EXPECTED_CHANGES.c.id.desc()).limit(limit))
    return [
        ExpectedChangeListItem(
            row.id,
            ExpectedChangeRecord(*(getattr(row, name) for name in FIELDS)),
            row.recorded_by,
            row.recorded_at,
        )
        for row in rows
    ]


def load_expected_changes(tx: Session, project: str) -> list[ExpectedChangeRecord]:
    """Load all expected changes of a project in the order they were added."""
    query = sa.select(*(EXPECTED_CHANGES.c[name] for name in FIELDS)).order_by(EXPECTED_CHANGES.c.id)
    return [
        ExpectedChangeRecord(*row)
        for row in tx.execute(query.where(matches_project(EXPECTED_CHANGES.c.project_id, project)))
    ]
