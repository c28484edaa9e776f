"""Figures of a database for monitoring: its size, its waiting work and its failures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import database_size
from perfci.store.jobs import work_queue_and_leases
from perfci.store.jobs.notification_queue import load_oldest_delivery_time
from perfci.store.tables.github import RunEventRow
from perfci.store.tables.notifications import DeliveryRow
from perfci.store.tables.work_queue_and_leases import LeaseRow, OutboxRow


@dataclass(frozen=True, slots=True)
class DatabaseStats:
    """Statistics of a database; ``judge_beat`` grows while a worker runs; ages are in seconds, 0 without
    work.
    """

    database_bytes: int
    outbox_waiting: int
    outbox_failed: int
    outbox_oldest_s: float
    deliveries_waiting: int
    deliveries_failed: int
    deliveries_oldest_due_s: float
    run_events_waiting: int
    run_events_failed: int
    judge_beat: int


def load_database_stats(tx: Session, now: datetime) -> DatabaseStats:
    """Load the statistics of a database."""
    stuck = sa.func.count().filter(OutboxRow.attempts >= work_queue_and_leases.MAX_ATTEMPTS)
    waiting, failed = tx.execute(sa.select(sa.func.count(), stuck).select_from(OutboxRow)).one()
    deliveries, events = _count_by_state(tx, DeliveryRow), _count_by_state(tx, RunEventRow)
    oldest = work_queue_and_leases.load_oldest_work_time(tx)
    return DatabaseStats(
        database_bytes=database_size(tx),
        outbox_waiting=waiting - failed,
        outbox_failed=failed,
        outbox_oldest_s=_age_s(oldest, now),
        deliveries_waiting=deliveries.get("waiting", 0) + deliveries.get("claimed", 0),
        deliveries_failed=deliveries.get("failed", 0),
        deliveries_oldest_due_s=_age_s(load_oldest_delivery_time(tx), now),
        run_events_waiting=events.get("waiting", 0),
        run_events_failed=events.get("failed", 0),
        judge_beat=int(tx.scalar(sa.select(sa.func.max(LeaseRow.beat))) or 0),
    )


def _age_s(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0


def _count_by_state(tx: Session, row: type[DeliveryRow] | type[RunEventRow]) -> dict[str, int]:
    return dict(tx.execute(sa.select(row.state, sa.func.count()).group_by(row.state)).all())
