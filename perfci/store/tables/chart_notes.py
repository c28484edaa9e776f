"""The table of notes that people write at a commit, for the charts of a project or of one series."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped

from perfci.store.tables.base import TableBase, foreign_key, primary_key


class ChartNoteRow(TableBase):
    """A note; without ``series_id`` it is on every chart of the project."""

    __tablename__ = "chart_notes"
    __table_args__ = (Index("ix_chart_notes_commit", "project_id", "sha"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    series_id: Mapped[int | None] = foreign_key("series.id", index=True, nullable=True)
    sha: Mapped[str]
    text: Mapped[str]
    author: Mapped[str]
    created_at: Mapped[datetime]
