"""Figures of a database for monitoring: its size, its waiting work, and whether it can be written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store.dialects import database_size
from perfci.store.jobs import work_queue_and_leases
from perfci.store.open_database import find_sqlite_file
from perfci.store.tables.github import RunEventRow
from perfci.store.tables.notifications import DeliveryRow
from perfci.store.tables.work_queue_and_leases import LeaseRow, OutboxRow
from perfci.store.transactions import Store, translate_errors


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
        outbox_oldest_s=max(0.0, (now - oldest).total_seconds()) if oldest else 0.0,
        deliveries_waiting=deliveries.get("waiting", 0) + deliveries.get("claimed", 0),
        deliveries_failed=deliveries.get("failed", 0),
        run_events_waiting=events.get("waiting", 0),
        run_events_failed=events.get("failed", 0),
        judge_beat=int(tx.scalar(sa.select(sa.func.max(LeaseRow.beat))) or 0),
    )


def _count_by_state(tx: Session, row: type[DeliveryRow] | type[RunEventRow]) -> dict[str, int]:
    return dict(tx.execute(sa.select(row.state, sa.func.count()).group_by(row.state)).all())


def require_writable_database(store: Store, wait_s: float) -> None:
    """Raise unless a write lock is available within ``wait_s`` seconds; nothing is written."""
    path = find_sqlite_file(store.url)
    if path is None:
        with store.read() as tx:
            if tx.scalar(sa.text("SELECT pg_is_in_recovery()")):
                raise PerfciError(
                    f"The database {store.display_name} is a copy that only follows another one."
                )
        return
    with (
        translate_errors(store.display_name),
        closing(sqlite3.connect(path, timeout=wait_s, isolation_level=None)) as connection,
    ):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
