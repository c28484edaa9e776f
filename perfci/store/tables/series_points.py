"""Tables of the points of series, derived from results so that a page reads no history."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.tables.base import Id, TableBase, foreign_key, primary_key


class SeriesPointsRow(TableBase):
    """What lists show of the history of a series; its points are in blocks.

    ``result_id`` is the newest result in it. A ``stale`` row does not hold any more: something older than its
    newest result has changed. ``failures`` counts the commits since the last one with a value, ``noise`` is
    the standard deviation of the log of one level in the last commits.
    """

    __tablename__ = "series_points"

    series_id: Mapped[int] = mapped_column(Id, ForeignKey("series.id"), primary_key=True, autoincrement=False)
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    result_id: Mapped[int] = mapped_column(Id)
    stale: Mapped[bool] = mapped_column(server_default=false())
    judged: Mapped[bool]
    commits: Mapped[int]
    failures: Mapped[int]
    failing_since: Mapped[datetime | None]
    last_commit_id: Mapped[int] = foreign_key("commits.id")
    last_status: Mapped[str]
    last_reason: Mapped[str]
    last_value_at: Mapped[datetime | None]
    level: Mapped[float | None]
    noise: Mapped[float | None]


class PointBlockRow(TableBase):
    """Consecutive points of a series as packed columns (``perfci/history/point_columns.py``)."""

    __tablename__ = "point_blocks"
    __table_args__ = (UniqueConstraint("series_id", "block"),)

    id: Mapped[int] = primary_key()
    series_id: Mapped[int] = foreign_key("series.id")
    block: Mapped[int]
    levels: Mapped[bytes]
    details: Mapped[bytes]
