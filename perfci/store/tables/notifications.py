"""Tables of notifications: their destinations and the queue of deliveries."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String, UniqueConstraint, true
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import TableBase, foreign_key, primary_key


class DestinationRow(TableBase):
    """A notification destination of a project; ``address`` and ``secret`` are encrypted."""

    __tablename__ = "destinations"
    __table_args__ = (UniqueConstraint("project_id", "name"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    name: Mapped[str]
    kind: Mapped[str]
    address: Mapped[str]
    secret: Mapped[str] = mapped_column(server_default="")
    routes: Mapped[Any] = mapped_column(JsonText, server_default="{}")
    quiet: Mapped[Any] = mapped_column(JsonText, server_default="{}")
    digest: Mapped[str] = mapped_column(server_default="")
    enabled: Mapped[bool] = mapped_column(server_default=true())


class DeliveryRow(TableBase):
    """One message to send, unique for an incident's state and a destination, so that it is sent once.

    Deliveries of one ``batch`` are sent as one message, and again as the same one if its arrival is
    uncertain.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("destination_id", "incident_id", "state_number"),
        Index("ix_deliveries_state", "state", "not_before"),
    )

    id: Mapped[int] = primary_key()
    uid: Mapped[str] = mapped_column(String(32), unique=True)
    destination_id: Mapped[int] = foreign_key("destinations.id")
    incident_id: Mapped[int] = foreign_key("incidents.id", index=True)
    state_number: Mapped[int]
    not_before: Mapped[datetime]
    state: Mapped[str]
    claimed_by: Mapped[str] = mapped_column(server_default="")
    claim: Mapped[int] = mapped_column(server_default="0")
    batch: Mapped[str] = mapped_column(server_default="")
    attempts: Mapped[int] = mapped_column(server_default="0")
    sent_at: Mapped[datetime | None]
    problem: Mapped[str] = mapped_column(server_default="")
    body: Mapped[Any] = mapped_column(JsonText)
