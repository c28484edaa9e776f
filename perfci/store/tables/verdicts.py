"""Tables of verdicts, how they were reached, and change points."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Index,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import TableBase, foreign_key, primary_key


class VerdictColumnsMixin:
    """The columns of a verdict, whatever it is about.

    ``tail_kind`` is empty where there was too little to judge the tail by, and absent in rows from before
    it was stored.
    """

    kind: Mapped[str]
    stage: Mapped[str]
    base: Mapped[str]
    head: Mapped[str]
    ratio: Mapped[float | None]
    interval_lo: Mapped[float | None]
    interval_hi: Mapped[float | None]
    base_level: Mapped[float | None]
    head_level: Mapped[float | None]
    noise_floor: Mapped[float | None]
    mde: Mapped[float | None]
    pairs: Mapped[int]
    pairs_to_decide: Mapped[int | None]
    p_value: Mapped[float | None]
    reason: Mapped[str]
    evidence: Mapped[Any] = mapped_column(JsonText)
    tail_kind: Mapped[str | None]
    tail_ratio: Mapped[float | None]
    tail_interval_lo: Mapped[float | None]
    tail_interval_hi: Mapped[float | None]


class VerdictRow(VerdictColumnsMixin, TableBase):
    """A verdict between two commits; superseded ones are kept."""

    __tablename__ = "verdicts"
    __table_args__ = (
        Index("ix_verdicts_question", "series_id", "base", "head"),
        Index(
            "ix_verdicts_between", "base", "head"
        ),  # without the project: it would be taken to page through one
    )

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    session_id: Mapped[int] = foreign_key("sessions.id", index=True)
    series_id: Mapped[int] = foreign_key("series.id")
    created_at: Mapped[datetime]
    superseded_by: Mapped[int | None] = foreign_key("verdicts.id", index=True, nullable=True)
    invalid: Mapped[bool] = mapped_column(server_default=false())


class DecisionRow(TableBase):
    """How one verdict was reached, so that it can be recomputed from the samples."""

    __tablename__ = "decisions"

    id: Mapped[int] = primary_key()
    verdict_id: Mapped[int] = foreign_key("verdicts.id")
    method: Mapped[str]
    rule: Mapped[Any] = mapped_column(JsonText)
    aa_verdicts_until: Mapped[int] = mapped_column(BigInteger)
    rate: Mapped[float | None]
    looks: Mapped[Any] = mapped_column(JsonText)
    made_by: Mapped[str]

    __table_args__ = (UniqueConstraint("verdict_id"),)


class ChangePointRow(TableBase):
    """A change point of a series."""

    __tablename__ = "change_points"
    __table_args__ = (Index("ix_change_points_sizes", "series_id", "relative_change"),)

    id: Mapped[int] = primary_key()
    series_id: Mapped[int] = foreign_key("series.id")
    commit: Mapped[str]
    last_good: Mapped[str]
    relative_change: Mapped[float]
    before: Mapped[float]
    after: Mapped[float]
    interval_lo: Mapped[float | None]
    interval_hi: Mapped[float | None]
    noise: Mapped[float | None]
    p_value: Mapped[float | None]
