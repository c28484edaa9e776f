"""The table of series that people archived: they leave lists, counts and incidents, their results stay."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped

from perfci.store.tables.base import TableBase, foreign_key, primary_key


class ArchivedSeriesRow(TableBase):
    """A series that somebody archived."""

    __tablename__ = "archived_series"
    __table_args__ = (UniqueConstraint("series_id", name="uq_archived_series_series_id"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    series_id: Mapped[int] = foreign_key("series.id")
    reason: Mapped[str]
    archived_by: Mapped[str]
    archived_at: Mapped[datetime]
