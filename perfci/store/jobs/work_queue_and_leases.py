"""Store the queue of work that transactions promised, and the leases under which one process does it.

Work items are written with the change that causes them and deleted with their result. A lease has one holder;
its expiry depends on heartbeats, not on clocks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.measurements import ProjectRow
from perfci.store.tables.work_queue_and_leases import LeaseRow, OutboxRow
from perfci.store.transactions import (
    build_insert_or_ignore,
    execute_and_count_rows,
    in_chunks,
    insert_rows,
)

WorkKind = Literal["judge", "judge_pr", "evaluate"]

OUTBOX, LEASES = OutboxRow.__table__, LeaseRow.__table__

MAX_ATTEMPTS = 8
"""Failures after which a work item is given up and kept with its error."""


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """A work item: ``subject`` is the key of a run to judge, the uid of a compared session, or the reason
    of an evaluation.
    """

    id: int
    project_id: int
    project: str
    kind: str
    subject: str
    created_at: datetime
    attempts: int
    problem: str = ""


def enqueue_work(tx: Session, project_id: int, kind: WorkKind, subjects: Iterable[str], at: datetime) -> None:
    """Put work items of one kind into the outbox, with the change that causes them."""
    columns = {"project_id": project_id, "kind": kind, "created_at": at, "problem": ""}
    insert_rows(tx, OutboxRow.__table__, [{**columns, "subject": subject} for subject in subjects], "id")


def load_next_project_work(tx: Session, kinds: Sequence[str], limit: int, now: datetime) -> list[OutboxItem]:
    """Load the due items of the project that waits longest, oldest first.

    No position is remembered: on PostgreSQL a lower id may be committed after a higher one.
    """
    due = sa.and_(
        OutboxRow.kind.in_(kinds),
        OutboxRow.attempts < MAX_ATTEMPTS,
        sa.or_(OutboxRow.not_before.is_(None), OutboxRow.not_before <= now),
    )
    first = tx.scalar(sa.select(OutboxRow.project_id).where(due).order_by(OutboxRow.id).limit(1))
    if first is None:
        return []
    query = (
        sa.select(*OUTBOX.c, ProjectRow.slug)
        .join(ProjectRow, OutboxRow.project_id == ProjectRow.id)
        .where(due, OutboxRow.project_id == first)
        .order_by(OutboxRow.id)
        .limit(limit)
    )
    return [
        OutboxItem(
            row.id, row.project_id, row.slug, row.kind, row.subject, row.created_at, row.attempts, row.problem
        )
        for row in tx.execute(query)
    ]


def delete_work(tx: Session, ids: Collection[int]) -> None:
    """Delete exactly the items that were read; newer ones stay."""
    for some in in_chunks(ids):
        tx.execute(sa.delete(OUTBOX).where(OutboxRow.id.in_(some)))


def postpone_work(tx: Session, work_id: int, problem: str, not_before: datetime) -> None:
    """Postpone an item after a failure and keep the error."""
    again = {"attempts": OutboxRow.attempts + 1, "problem": problem, "not_before": not_before}
    tx.execute(sa.update(OUTBOX).where(OutboxRow.id == work_id).values(again))


def load_oldest_work_time(tx: Session) -> datetime | None:
    """Return the creation time of the oldest waiting item."""
    waits = sa.select(sa.func.min(OutboxRow.created_at, type_=OUTBOX.c.created_at.type))
    return tx.scalar(waits.where(OutboxRow.attempts < MAX_ATTEMPTS))


class LeaseRecord(NamedTuple):
    """A lease: ``token`` grows with each new holder, ``beat`` with each heartbeat."""

    holder: str
    token: int
    beat: int


def find_lease(tx: Session, name: str) -> LeaseRecord | None:
    """Find a lease by name."""
    row = tx.execute(
        sa.select(LeaseRow.holder, LeaseRow.token, LeaseRow.beat).where(LeaseRow.name == name)
    ).first()
    return None if row is None else LeaseRecord(*row)


def claim_free_lease(tx: Session, name: str, holder: str) -> bool:
    """Claim a lease that is new or released; return whether that succeeded."""
    tx.execute(build_insert_or_ignore(tx, LeaseRow), {"name": name, "holder": holder, "token": 1, "beat": 0})
    given_back = sa.and_(LeaseRow.name == name, LeaseRow.holder == "")
    statement = sa.update(LEASES).where(given_back).values(holder=holder, token=LeaseRow.token + 1, beat=0)
    if execute_and_count_rows(tx, statement) == 1:
        return True
    lease = find_lease(tx, name)
    return lease is not None and lease.holder == holder


def take_over_lease(tx: Session, name: str, seen: LeaseRecord, holder: str) -> bool:
    """Take over a lease without a heartbeat since ``seen``; return whether that succeeded."""
    unchanged = sa.and_(LeaseRow.name == name, LeaseRow.token == seen.token, LeaseRow.beat == seen.beat)
    statement = sa.update(LEASES).where(unchanged).values(holder=holder, token=LeaseRow.token + 1, beat=0)
    return execute_and_count_rows(tx, statement) == 1


def renew_lease(tx: Session, name: str, holder: str, token: int) -> bool:
    """Send a heartbeat; return False if another holder has the lease by now."""
    mine = sa.and_(LeaseRow.name == name, LeaseRow.holder == holder, LeaseRow.token == token)
    statement = sa.update(LEASES).where(mine).values(beat=LeaseRow.beat + 1)
    return execute_and_count_rows(tx, statement) == 1


def release_lease(tx: Session, name: str, holder: str, token: int) -> bool:
    """Release a lease; return False if another holder has it by now."""
    mine = sa.and_(LeaseRow.name == name, LeaseRow.holder == holder, LeaseRow.token == token)
    statement = sa.update(LEASES).where(mine).values(holder="")
    return execute_and_count_rows(tx, statement) == 1
