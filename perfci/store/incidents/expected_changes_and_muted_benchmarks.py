"""Store expected changes and mutes, which exempt changes from paging. The caller owns ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.incidents.incident_records import Mute
from perfci.store.queries.history_conditions import project_id_condition
from perfci.store.tables.incidents import ExpectedChangeRow, MutedBenchmarkRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows

EXPECTED_CHANGES = ExpectedChangeRow.__table__
MUTED = MutedBenchmarkRow.__table__
MUTE_FIELDS = [MUTED.c[name] for name in Mute.__dataclass_fields__]


@dataclass(frozen=True, slots=True)
class ExpectedChangeRecord:
    """An expected change: ``sha`` brought it at ``merged_at``; ``source`` is ``#12`` or a commit."""

    sha: str
    match: str
    change: float
    reason: str
    source: str
    merged_at: datetime | None = None


CHANGE_FIELDS = tuple(ExpectedChangeRecord.__dataclass_fields__)


def add_expected_changes(
    tx: Session, project_id: int, changes: Sequence[ExpectedChangeRecord], actor: str, at: datetime
) -> int:
    """Add expected changes; return how many are new. The first of equal ones stays."""
    statement = build_insert_or_ignore(tx, ExpectedChangeRow, "id")
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
            ExpectedChangeRecord(*(getattr(row, name) for name in CHANGE_FIELDS)),
            row.recorded_by,
            row.recorded_at,
        )
        for row in rows
    ]


def load_expected_changes(tx: Session, project: str) -> list[ExpectedChangeRecord]:
    """Load all expected changes of a project in the order they were added."""
    query = sa.select(*(EXPECTED_CHANGES.c[name] for name in CHANGE_FIELDS)).order_by(EXPECTED_CHANGES.c.id)
    return [
        ExpectedChangeRecord(*row)
        for row in tx.execute(query.where(project_id_condition(EXPECTED_CHANGES.c.project_id, project)))
    ]


def load_mutes(tx: Session, project_id: int, now: datetime) -> list[Mute]:
    """Load the benchmarks that are muted at a moment, by name."""
    query = sa.select(*MUTE_FIELDS).where(
        MUTED.c.project_id == project_id, MUTED.c.unmuted_at.is_(None), MUTED.c.expires_at > now
    )
    return sorted((Mute(*row) for row in tx.execute(query)), key=lambda mute: (mute.benchmark, mute.metric))


def add_mute(tx: Session, project_id: int, mute: Mute) -> None:
    """Mute a benchmark; a muted one gets the new reason and end."""
    end_mute(tx, project_id, mute.benchmark, mute.metric, mute.since)
    row = {name: getattr(mute, name) for name in Mute.__dataclass_fields__}
    tx.execute(sa.insert(MUTED), {"project_id": project_id, **row})


def end_mute(tx: Session, project_id: int, benchmark: str, metric: str, now: datetime) -> bool:
    """End a mute early; return False if there is none."""
    same = (MUTED.c.benchmark == benchmark, MUTED.c.metric == metric)
    chosen = (MUTED.c.project_id == project_id, *same, MUTED.c.unmuted_at.is_(None), MUTED.c.expires_at > now)
    return bool(execute_and_count_rows(tx, sa.update(MUTED).where(*chosen).values(unmuted_at=now)))


def has_mute_ended_since(tx: Session, project_id: int, benchmark: str, since: datetime) -> bool:
    """Whether a mute of a benchmark ended or expired since a moment."""
    ended = sa.func.coalesce(MUTED.c.unmuted_at, MUTED.c.expires_at)
    chosen = (MUTED.c.project_id == project_id, MUTED.c.benchmark == benchmark, ended >= since)
    return tx.scalar(sa.select(MUTED.c.id).where(*chosen).limit(1)) is not None
