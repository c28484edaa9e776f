"""Tables of measurement orders: what is to be measured, and who asked for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import TableBase, foreign_key, primary_key


class MeasurementOrderRow(TableBase):
    """A measurement that was asked for.

    ``dedupe_key`` is the hash of its content while it is open and NULL afterwards, so that the database
    lets only one open order of a content exist. ``lease_token`` counts holders; ``lease_ends_at`` is NULL
    where no worker has to send heartbeats. ``external_run`` is the id of a run that an engine started
    elsewhere, such as GitHub's workflow run. ``detail`` is how far a bisect or a backfill is, or what it
    came to, in fields; ``stride``, ``max_processes`` and ``budget_s`` bound it.
    """

    __tablename__ = "measurement_orders"
    __table_args__ = (
        Index("ix_measurement_orders_state", "state", "engine", "id"),
        Index("ix_measurement_orders_project", "project_id", "id"),
    )

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    kind: Mapped[str]
    base_sha: Mapped[str | None]
    head_sha: Mapped[str]
    bench: Mapped[str]
    pairs: Mapped[int | None]
    suite: Mapped[str]
    metric: Mapped[str] = mapped_column(server_default="")
    max_processes: Mapped[int | None]
    budget_s: Mapped[int | None]
    stride: Mapped[int | None]
    engine: Mapped[str]
    dedupe_key: Mapped[str | None] = mapped_column(String(64), unique=True)
    request_count: Mapped[int] = mapped_column(server_default="0")
    state: Mapped[str]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(server_default="0")
    holder: Mapped[str] = mapped_column(server_default="")
    lease_token: Mapped[int] = mapped_column(BigInteger, server_default="0")
    lease_ends_at: Mapped[datetime | None]
    external_run: Mapped[str] = mapped_column(server_default="")
    external_url: Mapped[str] = mapped_column(server_default="")
    progress: Mapped[str] = mapped_column(server_default="")
    problem: Mapped[str] = mapped_column(server_default="")
    result: Mapped[Any | None] = mapped_column(JsonText)
    detail: Mapped[Any | None] = mapped_column(JsonText)


class OrderRequestRow(TableBase):
    """One asking for an order: a second one joins the open order of equal content."""

    __tablename__ = "order_requests"

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    order_id: Mapped[int] = foreign_key("measurement_orders.id", index=True)
    requested_by: Mapped[str]
    source: Mapped[str]
    requested_at: Mapped[datetime]
    pull_number: Mapped[int | None]
    comment_id: Mapped[int | None] = mapped_column(BigInteger)
    incident: Mapped[int | None]
    series: Mapped[str] = mapped_column(server_default="")
