"""Tables of profiles and of what they explain; files are kept once each, by the hash of their content."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import TableBase, foreign_key, primary_key


class ArtifactRow(TableBase):
    """A compressed file; ``hash`` is the SHA-256 of its content before compression, ``size`` its bytes."""

    __tablename__ = "artifacts"
    __table_args__ = (UniqueConstraint("hash"),)

    id: Mapped[int] = primary_key()
    hash: Mapped[str]
    size: Mapped[int]
    content: Mapped[bytes]
    created_at: Mapped[datetime]


class CallProfileRow(TableBase):
    """What one process of a commit spent a call of one cell on; its files go when they are pruned."""

    __tablename__ = "profiles"
    __table_args__ = (Index("ix_profiles_commit", "project_id", "sha"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    sha: Mapped[str]
    cell: Mapped[str]
    setup: Mapped[str]
    environment: Mapped[Any] = mapped_column(JsonText)
    wall_s: Mapped[float]
    cpu_s: Mapped[float]
    tree_id: Mapped[int | None] = foreign_key("artifacts.id", index=True, nullable=True)
    tables_id: Mapped[int | None] = foreign_key("artifacts.id", index=True, nullable=True)
    trace_id: Mapped[int | None] = foreign_key("artifacts.id", index=True, nullable=True)
    created_at: Mapped[datetime]


class ProfilePartRow(TableBase):
    """A phase, operator, kernel or line of a profile: seconds and calls in one call."""

    __tablename__ = "profile_parts"
    __table_args__ = (Index("ix_profile_parts_profile", "profile_id", "kind"),)

    id: Mapped[int] = primary_key()
    profile_id: Mapped[int] = foreign_key("profiles.id")
    kind: Mapped[str]
    name: Mapped[str]
    seconds: Mapped[float]
    calls: Mapped[float]


class ExplanationRow(TableBase):
    """What the profiles, or the stored counts, of two commits say of one cell; the newest counts."""

    __tablename__ = "explanations"
    __table_args__ = (Index("ix_explanations_commits", "project_id", "head", "base"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    base: Mapped[str]
    head: Mapped[str]
    cell: Mapped[str]
    metric: Mapped[str]
    conclusion: Mapped[str]
    document: Mapped[Any] = mapped_column(JsonText)
    created_at: Mapped[datetime]
