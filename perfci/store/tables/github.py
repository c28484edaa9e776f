"""Tables of GitHub: bound repositories, job tokens and workflow-run events."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import TableBase, foreign_key, primary_key


class RepositoryRow(TableBase):
    """The repository a project is bound to, by GitHub's permanent numbers; ``slug`` is only shown."""

    __tablename__ = "repositories"

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    repository_id: Mapped[int] = mapped_column(BigInteger)
    owner_id: Mapped[int] = mapped_column(BigInteger)
    slug: Mapped[str]
    workflow: Mapped[str]
    environment: Mapped[str] = mapped_column(server_default="")
    refs: Mapped[Any] = mapped_column(JsonText)
    bound_at: Mapped[datetime]

    __table_args__ = (UniqueConstraint("project_id"),)


class UsedTokenRow(TableBase):
    """A foreign token that was exchanged, by the hash of its issuer and id, until it expires."""

    __tablename__ = "used_tokens"

    id: Mapped[int] = primary_key()
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    expires_at: Mapped[datetime] = mapped_column(index=True)


class RunTokenRow(TableBase):
    """The token of one CI job, by its hash, with its grant, until it expires."""

    __tablename__ = "run_tokens"

    id: Mapped[int] = primary_key()
    uid: Mapped[str] = mapped_column(String(12), unique=True)
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    run_id: Mapped[str]
    attempt: Mapped[int]
    sha: Mapped[str]
    event: Mapped[str]
    pull_request: Mapped[int | None]
    baseline: Mapped[bool]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class RunEventRow(TableBase):
    """A GitHub event, kept a while after it was handled to recognise duplicates.

    ``delivery`` is GitHub's id of the message; ``installation`` is GitHub's number, and ``number`` that
    of the workflow run, of the comment that orders something or, for acceptance comments, merges and labels,
    of the pull request.
    """

    __tablename__ = "run_events"
    __table_args__ = (
        UniqueConstraint("delivery", "project_id", name="uq_run_events_delivery_project_id"),
        Index("ix_run_events_state", "state", "not_before"),
    )

    id: Mapped[int] = primary_key()
    delivery: Mapped[str] = mapped_column(String(64))
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    installation: Mapped[int] = mapped_column(BigInteger)
    repository: Mapped[str]
    number: Mapped[int] = mapped_column(BigInteger)
    action: Mapped[str]
    received_at: Mapped[datetime]
    state: Mapped[str]
    attempts: Mapped[int] = mapped_column(server_default="0")
    not_before: Mapped[datetime]
    problem: Mapped[str] = mapped_column(server_default="")
