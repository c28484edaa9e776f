"""The tables of jobs elsewhere: which may write to a project, the tokens of theirs, what is told of their
runs.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.tables.base import JsonText, TableBase, foreign_key, primary_key


class RepositoryRow(TableBase):
    """What a project is bound to: GitHub's numbers, which are never given to another; ``slug`` is only
    shown.
    """

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
    """A foreign token that was exchanged, by the hash of its issuer and id, until it is over by itself."""

    __tablename__ = "used_tokens"

    id: Mapped[int] = primary_key()
    hash: Mapped[str] = mapped_column(String(64), unique=True)
    expires_at: Mapped[datetime] = mapped_column(index=True)


class RunTokenRow(TableBase):
    """The token of one job, by its hash, with what it is good for; gone once it is over."""

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
    """What GitHub told of a run of a workflow, until it was acted upon and for a while after: it tells
    nothing twice.

    ``delivery`` is GitHub's own name for the message; ``installation`` and ``number`` are GitHub's numbers,
    this of the run or, where a comment asks to accept what it measured or it was merged, of the pull
    request.
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
