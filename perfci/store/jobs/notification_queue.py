"""Store the queue of deliveries to notification destinations. The caller owns the transaction ``tx``."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.jobs.notification_destinations import DESTINATIONS, Destination, build_destination
from perfci.store.tables.incidents import IncidentRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.tables.notifications import DeliveryRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows

DELIVERIES, INCIDENTS = DeliveryRow.__table__, IncidentRow.__table__

WAITING, CLAIMED, SENT, FAILED = "waiting", "claimed", "sent", "failed"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One queued message; ``uid`` identifies it to the receiver across retries."""

    id: int
    uid: str
    destination: Destination
    project: str
    incident_id: int
    number: int
    state_number: int
    not_before: datetime
    state: str
    claimed_by: str
    claim: int
    batch: str
    attempts: int
    sent_at: datetime | None
    problem: str
    body: Mapping[str, Any]
    issue_url: str


def add_delivery(
    tx: Session,
    destination_id: int,
    incident_id: int,
    state_number: int,
    not_before: datetime,
    body: Mapping[str, Any],
) -> bool:
    """Queue a message, once for a state of an incident; return False if it is queued already."""
    row = {
        "uid": secrets.token_hex(16),
        "destination_id": destination_id,
        "incident_id": incident_id,
        "state_number": state_number,
        "not_before": not_before,
        "state": WAITING,
        "body": body,
    }
    return tx.scalar(build_insert_or_ignore(tx, DeliveryRow, "id"), row) is not None


def load_due_deliveries(tx: Session, holder: str, now: datetime, limit: int = 100) -> list[Delivery]:
    """Load the deliveries that are due, those left by another lease holder included, oldest first."""
    waiting = sa.and_(DELIVERIES.c.state == WAITING, DELIVERIES.c.not_before <= now)
    orphaned = sa.and_(DELIVERIES.c.state == CLAIMED, DELIVERIES.c.claimed_by != holder)
    return _load_deliveries(tx, sa.or_(waiting, orphaned), DESTINATIONS.c.enabled, limit=limit)


def load_oldest_delivery_time(tx: Session) -> datetime | None:
    """Load the time at which the delivery that waits longest was, or will be, due."""
    unsent = DELIVERIES.c.state.in_([WAITING, CLAIMED])
    query = sa.select(sa.func.min(DELIVERIES.c.not_before)).join(
        DESTINATIONS, DELIVERIES.c.destination_id == DESTINATIONS.c.id
    )
    due: datetime | None = tx.scalar(query.where(unsent, DESTINATIONS.c.enabled))
    return due


def load_deliveries_of_batch(tx: Session, batch: str) -> list[Delivery]:
    """Load the deliveries of one batch."""
    return _load_deliveries(tx, DELIVERIES.c.batch == batch, DELIVERIES.c.state == CLAIMED)


def claim_deliveries(tx: Session, deliveries: Sequence[Delivery], holder: str, batch: str) -> list[Delivery]:
    """Claim deliveries for sending; those claimed by another holder meanwhile are left out."""
    mine = []
    for waiting in deliveries:
        chosen = (
            DELIVERIES.c.id == waiting.id,
            DELIVERIES.c.claim == waiting.claim,
            DELIVERIES.c.state == waiting.state,
        )
        columns = {"state": CLAIMED, "claimed_by": holder, "claim": waiting.claim + 1, "batch": batch}
        if execute_and_count_rows(tx, sa.update(DELIVERIES).where(*chosen).values(**columns)):
            mine.append(waiting)
    return mine


def postpone_deliveries(tx: Session, deliveries: Collection[Delivery], until: datetime) -> None:
    """Postpone deliveries until a moment."""
    chosen = (DELIVERIES.c.id.in_([delivery.id for delivery in deliveries]), DELIVERIES.c.state == WAITING)
    tx.execute(sa.update(DELIVERIES).where(*chosen).values(not_before=until))


def mark_deliveries_sent(tx: Session, deliveries: Collection[Delivery], holder: str, at: datetime) -> int:
    """Mark deliveries as sent; those another holder took over meanwhile are left out."""
    columns = {"state": SENT, "sent_at": at, "problem": ""}
    return execute_and_count_rows(
        tx, sa.update(DELIVERIES).where(_claimed_by(deliveries, holder)).values(**columns)
    )


def mark_deliveries_failed(
    tx: Session, deliveries: Collection[Delivery], holder: str, problem: str, retry_at: datetime | None
) -> int:
    """Record a failed attempt, with the time of the next one or none."""
    state = FAILED if retry_at is None else WAITING
    columns: dict[str, Any] = {"state": state, "problem": problem, "attempts": DELIVERIES.c.attempts + 1}
    columns |= {} if retry_at is None else {"not_before": retry_at}
    return execute_and_count_rows(
        tx, sa.update(DELIVERIES).where(_claimed_by(deliveries, holder)).values(**columns)
    )


def load_deliveries(
    tx: Session, project_id: int, *, incident_id: int | None = None, limit: int = 100
) -> list[Delivery]:
    """Load the sent and queued deliveries of a project, newest first."""
    chosen = [DESTINATIONS.c.project_id == project_id]
    chosen += [DELIVERIES.c.incident_id == incident_id] if incident_id is not None else []
    return _load_deliveries(tx, *chosen, limit=limit, newest_first=True)


def _claimed_by(deliveries: Collection[Delivery], holder: str) -> sa.ColumnElement[bool]:
    ids = [delivery.id for delivery in deliveries]
    return sa.and_(DELIVERIES.c.id.in_(ids), DELIVERIES.c.state == CLAIMED, DELIVERIES.c.claimed_by == holder)


DELIVERY_COLUMNS = (
    "id",
    "uid",
    "incident_id",
    "state_number",
    "not_before",
    "state",
    "claimed_by",
    "claim",
    "batch",
    "attempts",
    "sent_at",
    "problem",
    "body",
)


def _load_deliveries(
    tx: Session, *conditions: sa.ColumnElement[bool], limit: int | None = None, newest_first: bool = False
) -> list[Delivery]:
    of_destination = [
        column.label(f"to_{column.name}") for column in DESTINATIONS.c if column.name != "project_id"
    ]
    query = (
        sa.select(
            *(DELIVERIES.c[name] for name in DELIVERY_COLUMNS),
            *of_destination,
            INCIDENTS.c.number,
            INCIDENTS.c.issue_url,
            ProjectRow.slug.label("project"),
        )
        .join(DESTINATIONS, DELIVERIES.c.destination_id == DESTINATIONS.c.id)
        .join(INCIDENTS, DELIVERIES.c.incident_id == INCIDENTS.c.id)
        .join(ProjectRow, DESTINATIONS.c.project_id == ProjectRow.id)
        .where(*conditions)
        .order_by(DELIVERIES.c.id.desc() if newest_first else DELIVERIES.c.id)
        .limit(limit)
    )
    deliveries = []
    for row in tx.execute(query).mappings():
        there = {name.removeprefix("to_"): value for name, value in row.items() if name.startswith("to_")}
        own = {name: value for name, value in row.items() if not name.startswith("to_")}
        deliveries.append(Delivery(destination=build_destination(there), **own))
    return deliveries
