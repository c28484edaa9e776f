"""Tables of comparisons between variants of one commit, and of goals.

Their verdicts are about two cells of one commit, or about a clause: kept apart from ``verdicts``, they never
enter a history.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import TableBase, foreign_key, primary_key
from perfci.store.tables.verdicts import VerdictColumnsMixin


class VariantComparisonRow(TableBase):
    """A comparison of variants or an ablation; ``name`` is what was varied, or the name of the ablation."""

    __tablename__ = "variant_comparisons"
    __table_args__ = (Index("ix_variant_comparisons_commit", "project_id", "sha"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    session_id: Mapped[int] = foreign_key("sessions.id", index=True)
    sha: Mapped[str]
    kind: Mapped[str]
    name: Mapped[str]
    created_at: Mapped[datetime]


class VariantStepRow(TableBase):
    """One variant or step at one benchmark, or the total of an ablation, with what it was compared with."""

    __tablename__ = "variant_steps"
    __table_args__ = (UniqueConstraint("comparison_id", "position"),)

    id: Mapped[int] = primary_key()
    comparison_id: Mapped[int] = foreign_key("variant_comparisons.id")
    position: Mapped[int]
    is_total: Mapped[bool]
    benchmark: Mapped[str]
    shared_parameters: Mapped[Any] = mapped_column(JsonText)
    name: Mapped[str]
    compared_with: Mapped[str]
    rejection_reason: Mapped[str]
    numerics: Mapped[Any] = mapped_column(JsonText, server_default="[]")


class VariantVerdictRow(VerdictColumnsMixin, TableBase):
    """The verdict of one step on one metric; ``series_id`` is that of the step, not of its baseline."""

    __tablename__ = "variant_verdicts"

    id: Mapped[int] = primary_key()
    step_id: Mapped[int] = foreign_key("variant_steps.id", index=True)
    series_id: Mapped[int] = foreign_key("series.id", index=True)


class GoalClauseRow(TableBase):
    """One clause of a goal as it was judged; of a goal that has no judged clause, one row without a clause.

    Estimate and interval are in the unit of the clause.
    """

    __tablename__ = "goal_clauses"
    __table_args__ = (Index("ix_goal_clauses_commit", "project_id", "head"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    session_id: Mapped[int] = foreign_key("sessions.id", index=True)
    series_id: Mapped[int | None] = foreign_key("series.id", index=True, nullable=True)
    base: Mapped[str]
    head: Mapped[str]
    goal: Mapped[str]
    subject: Mapped[str]
    goal_outcome: Mapped[str]
    goal_reason: Mapped[str]
    clause: Mapped[str]
    outcome: Mapped[str]
    estimate: Mapped[float | None]
    interval_lo: Mapped[float | None]
    interval_hi: Mapped[float | None]
    reason: Mapped[str]
    created_at: Mapped[datetime]
