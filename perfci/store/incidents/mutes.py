"""Quarantined benchmarks: watched, and told to nobody. The caller owns the transaction ``tx``."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import rows_changed
from perfci.store.incidents.records import Suspension
from perfci.store.tables.incidents import QuarantinedBenchmarkRow
from perfci.store.writes.row_ids import table

SUSPENDED = table(QuarantinedBenchmarkRow)
FIELDS = [SUSPENDED.c[name] for name in Suspension.__dataclass_fields__]


def suspensions(tx: Session, project_id: int, now: datetime) -> list[Suspension]:
    """The benchmarks in quarantine at a moment, by name."""
    query = sa.select(*FIELDS).where(SUSPENDED.c.project_id == project_id, *_lasting(now))
    return sorted((Suspension(*row) for row in tx.execute(query)), key=lambda one: (one.benchmark, one.metric))


def suspend(tx: Session, project_id: int, wanted: Suspension) -> None:
    """Put a benchmark into quarantine; one that is there gets the new reason and end."""
    release(tx, project_id, wanted.benchmark, wanted.metric, wanted.since)
    row = {name: getattr(wanted, name) for name in Suspension.__dataclass_fields__}
    tx.execute(sa.insert(SUSPENDED), {"project_id": project_id, **row})


def release(tx: Session, project_id: int, benchmark: str, metric: str, now: datetime) -> bool:
    """End a quarantine before its time; False where there is none."""
    same = (SUSPENDED.c.benchmark == benchmark, SUSPENDED.c.metric == metric)
    chosen = (SUSPENDED.c.project_id == project_id, *same, *_lasting(now))
    return bool(rows_changed(tx, sa.update(SUSPENDED).where(*chosen).values(released_at=now)))


def was_released(tx: Session, project_id: int, benchmark: str, since: datetime) -> bool:
    """Whether a person let a benchmark out, or its time ran out, after a moment: it gets its chance."""
    ended = sa.func.coalesce(SUSPENDED.c.released_at, SUSPENDED.c.expires_at)
    chosen = (SUSPENDED.c.project_id == project_id, SUSPENDED.c.benchmark == benchmark, ended >= since)
    return tx.scalar(sa.select(SUSPENDED.c.id).where(*chosen).limit(1)) is not None


def _lasting(now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return (SUSPENDED.c.released_at.is_(None), SUSPENDED.c.expires_at > now)
