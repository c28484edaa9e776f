"""Store notification destinations. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.notifications import DeliveryRow, DestinationRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows

DESTINATIONS = DestinationRow.__table__


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination: ``routes`` filter its messages, ``quiet`` holds its quiet hours, ``digest`` batches
    them. Stored ones have an encrypted address and secret.
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


def load_destinations(tx: Session, project_id: int) -> list[Destination]:
    """Load the destinations of a project by name, disabled ones included."""
    query = sa.select(DESTINATIONS).where(DESTINATIONS.c.project_id == project_id)
    return sorted(
        (build_destination(row) for row in tx.execute(query).mappings()),
        key=lambda destination: destination.name,
    )


def load_all_destinations(tx: Session) -> list[Destination]:
    """Load the destinations of all projects."""
    return [build_destination(row) for row in tx.execute(sa.select(DESTINATIONS)).mappings()]


def replace_stored_secrets(tx: Session, destination_id: int, address: str, secret: str) -> None:
    """Replace the address and the secret as they are stored: encrypted."""
    chosen = sa.update(DESTINATIONS).where(DESTINATIONS.c.id == destination_id)
    tx.execute(chosen.values(address=address, secret=secret))


def find_destination(tx: Session, project_id: int, name: str) -> Destination | None:
    """Find a destination by name."""
    return next(
        (destination for destination in load_destinations(tx, project_id) if destination.name == name), None
    )


def save_destination(tx: Session, project_id: int, destination: Destination) -> bool:
    """Add or update a destination; return True if it is new."""
    columns = {key: value for key, value in asdict(destination).items() if key not in ("id", "name")}
    chosen = (DESTINATIONS.c.project_id == project_id, DESTINATIONS.c.name == destination.name)
    if execute_and_count_rows(tx, sa.update(DESTINATIONS).where(*chosen).values(**columns)):
        return False
    tx.execute(
        build_insert_or_ignore(tx, DestinationRow),
        {"project_id": project_id, "name": destination.name, **columns},
    )
    return True


def delete_destination(tx: Session, project_id: int, name: str) -> bool:
    """Delete a destination and its queued deliveries."""
    destination = find_destination(tx, project_id, name)
    if destination is None:
        return False
    tx.execute(sa.delete(DeliveryRow).where(DeliveryRow.destination_id == destination.id))
    return bool(
        execute_and_count_rows(tx, sa.delete(DESTINATIONS).where(DESTINATIONS.c.id == destination.id))
    )


def build_destination(row: Any) -> Destination:
    """Build a destination from a row of ``destinations``."""
    return Destination(**{name: value for name, value in row.items() if name != "project_id"})
