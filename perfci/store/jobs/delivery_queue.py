"""Where a project's messages go, and each message until it was sent. The caller owns the transaction
``tx``.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import execute_rowcount, insert_or_ignore
from perfci.store.tables.base import core_table
from perfci.store.tables.incidents import DeliveryRow, DestinationRow, IncidentRow
from perfci.store.tables.measurements import ProjectRow

DESTINATIONS, DELIVERIES, INCIDENTS = (
    core_table(DestinationRow),
    core_table(DeliveryRow),
    core_table(IncidentRow),
)

WAITING, CLAIMED, SENT, FAILED = "waiting", "claimed", "sent", "failed"


@dataclass(frozen=True, slots=True)
class Destination:
    """``routes`` say of what it hears, ``quiet`` when it wants no message, ``digest`` when it wants all at
    once.
    """

    name: str
    kind: str
    address: str
    secret: str = field(default="", repr=False)
    routes: Mapping[str, Any] = field(default_factory=dict)
    quiet: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    enabled: bool = True
    id: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message on its way; ``uid`` names it wherever it arrives, however often it is sent."""

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


def load_destinations(tx: Session, project_id: int) -> list[Destination]:
    """The destinations of a project by name, those switched off too."""
    query = sa.select(DESTINATIONS).where(DESTINATIONS.c.project_id == project_id)
    return sorted(
        (_build_destination(row) for row in tx.execute(query).mappings()),
        key=lambda destination: destination.name,
    )


def find_destination(tx: Session, project_id: int, name: str) -> Destination | None:
    return next(
        (destination for destination in load_destinations(tx, project_id) if destination.name == name), None
    )


def save_destination(tx: Session, project_id: int, destination: Destination) -> bool:
    """Add a destination, or change the one of this name; True where it is new."""
    columns = {key: value for key, value in asdict(destination).items() if key not in ("id", "name")}
    chosen = (DESTINATIONS.c.project_id == project_id, DESTINATIONS.c.name == destination.name)
    if execute_rowcount(tx, sa.update(DESTINATIONS).where(*chosen).values(**columns)):
        return False
    tx.execute(
        insert_or_ignore(tx, DestinationRow), {"project_id": project_id, "name": destination.name, **columns}
    )
    return True


def delete_destination(tx: Session, project_id: int, name: str) -> bool:
    """Remove a destination with all that was still to be sent there."""
    destination = find_destination(tx, project_id, name)
    if destination is None:
        return False
    tx.execute(sa.delete(DELIVERIES).where(DELIVERIES.c.destination_id == destination.id))
    return bool(execute_rowcount(tx, sa.delete(DESTINATIONS).where(DESTINATIONS.c.id == destination.id)))


def add_delivery(
    tx: Session,
    destination_id: int,
    incident_id: int,
    state_number: int,
    not_before: datetime,
    body: Mapping[str, Any],
) -> bool:
    """Put a message on its way, once for this state of the incident; False where it is on its way already."""
    row = {
        "uid": secrets.token_hex(16),
        "destination_id": destination_id,
        "incident_id": incident_id,
        "state_number": state_number,
        "not_before": not_before,
        "state": WAITING,
        "body": body,
    }
    return tx.scalar(insert_or_ignore(tx, DeliveryRow, "id"), row) is not None


def load_due_deliveries(tx: Session, holder: str, now: datetime, limit: int = 100) -> list[Delivery]:
    """What may be sent now, and what another holder of the lease had in hand when it went away; oldest
    first.
    """
    waiting = sa.and_(DELIVERIES.c.state == WAITING, DELIVERIES.c.not_before <= now)
    orphaned = sa.and_(DELIVERIES.c.state == CLAIMED, DELIVERIES.c.claimed_by != holder)
    return _load_deliveries(tx, sa.or_(waiting, orphaned), DESTINATIONS.c.enabled, limit=limit)


def load_batch(tx: Session, batch: str) -> list[Delivery]:
    return _load_deliveries(tx, DELIVERIES.c.batch == batch, DELIVERIES.c.state == CLAIMED)


def claim_deliveries(tx: Session, deliveries: Sequence[Delivery], holder: str, batch: str) -> list[Delivery]:
    """Take messages to send them; those that somebody else took meanwhile are left out."""
    mine = []
    for waiting in deliveries:
        chosen = (
            DELIVERIES.c.id == waiting.id,
            DELIVERIES.c.claim == waiting.claim,
            DELIVERIES.c.state == waiting.state,
        )
        columns = {"state": CLAIMED, "claimed_by": holder, "claim": waiting.claim + 1, "batch": batch}
        if execute_rowcount(tx, sa.update(DELIVERIES).where(*chosen).values(**columns)):
            mine.append(waiting)
    return mine


def postpone_deliveries(tx: Session, deliveries: Collection[Delivery], until: datetime) -> None:
    """Keep messages back that wait for their hour."""
    chosen = (DELIVERIES.c.id.in_([delivery.id for delivery in deliveries]), DELIVERIES.c.state == WAITING)
    tx.execute(sa.update(DELIVERIES).where(*chosen).values(not_before=until))


def mark_sent(tx: Session, deliveries: Collection[Delivery], holder: str, at: datetime) -> int:
    """One UPDATE for all that travelled together; those that somebody else took over meanwhile stay his."""
    columns = {"state": SENT, "sent_at": at, "problem": ""}
    return execute_rowcount(
        tx, sa.update(DELIVERIES).where(_claimed_by(deliveries, holder)).values(**columns)
    )


def mark_failed(
    tx: Session, deliveries: Collection[Delivery], holder: str, problem: str, retry_at: datetime | None
) -> int:
    """Another try later, or never."""
    state = FAILED if retry_at is None else WAITING
    columns: dict[str, Any] = {"state": state, "problem": problem, "attempts": DELIVERIES.c.attempts + 1}
    columns |= {} if retry_at is None else {"not_before": retry_at}
    return execute_rowcount(
        tx, sa.update(DELIVERIES).where(_claimed_by(deliveries, holder)).values(**columns)
    )


def load_deliveries(
    tx: Session, project_id: int, *, incident_id: int | None = None, limit: int = 100
) -> list[Delivery]:
    """What was and will be sent for a project, newest first."""
    chosen = [DESTINATIONS.c.project_id == project_id]
    chosen += [DELIVERIES.c.incident_id == incident_id] if incident_id is not None else []
    return _load_deliveries(tx, *chosen, limit=limit, newest_first=True)


def link_issue(tx: Session, incident_id: int, url: str) -> None:
    """Remember which issue was opened for an incident, unless a person linked another one."""
    chosen = (INCIDENTS.c.id == incident_id, INCIDENTS.c.issue_url == "")
    tx.execute(sa.update(INCIDENTS).where(*chosen).values(issue_url=url))


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
    there = [column.label(f"to_{column.name}") for column in DESTINATIONS.c if column.name != "project_id"]
    query = (
        sa.select(
            *(DELIVERIES.c[name] for name in DELIVERY_COLUMNS),
            *there,
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
    return [_build_delivery(row) for row in tx.execute(query).mappings()]


def _build_delivery(row: Any) -> Delivery:
    there = {name.removeprefix("to_"): value for name, value in row.items() if name.startswith("to_")}
    own = {name: value for name, value in row.items() if not name.startswith("to_")}
    return Delivery(destination=_build_destination(there), **own)


def _build_destination(row: Any) -> Destination:
    return Destination(**{name: value for name, value in row.items() if name != "project_id"})
