"""Tables of waiting work: the outbox and leases."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Index
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.tables.base import TableBase, foreign_key, primary_key


class OutboxRow(TableBase):
    """A work item, written with the change that causes it and deleted with its result."""

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_kind", "kind", "id"), Index("ix_outbox_project", "project_id", "id"))

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    kind: Mapped[str]
    subject: Mapped[str]
    created_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(server_default="0")
    not_before: Mapped[datetime | None]
    problem: Mapped[str] = mapped_column(server_default="")


class LeaseRow(TableBase):
    """A lease: ``beat`` counts heartbeats, ``token`` counts holders, which distinguishes an old holder."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    token: Mapped[int] = mapped_column(BigInteger)
    beat: Mapped[int] = mapped_column(BigInteger)
