"""Save comparisons of variants, ablations and goals. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, replace

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import GoalClauseRecord, GoalRecord, Run, VariantComparisonRecord, Verdict
from perfci.store.column_conversions import verdict_values
from perfci.store.tables.variant_comparisons import (
    GoalClauseRow,
    VariantComparisonRow,
    VariantStepRow,
    VariantVerdictRow,
)
from perfci.store.writes import find_or_add_rows

COMPARISONS, STEPS = VariantComparisonRow.__table__, VariantStepRow.__table__
VERDICTS, CLAUSES = VariantVerdictRow.__table__, GoalClauseRow.__table__


def save_carried_comparisons(tx: Session, run: Run) -> None:
    """Store what the session of a new run judged by variants and goals, under the name it has here."""
    for comparison in run.variant_comparisons:
        add_variant_comparison(tx, run.project, replace(comparison, session_uid=run.session))
    if run.goals:
        add_goals(tx, run.project, [replace(goal, session_uid=run.session) for goal in run.goals])


def add_variant_comparison(tx: Session, project: str, comparison: VariantComparisonRecord) -> None:
    """Store a comparison of variants with its steps and verdicts."""
    project_id = find_or_add_rows.ensure_project_id(tx, project)
    values = {
        "project_id": project_id,
        "session_id": find_or_add_rows.require_session_id(tx, comparison.session_uid),
        "sha": comparison.sha,
        "kind": comparison.kind,
        "name": comparison.name,
        "created_at": comparison.created_at,
    }
    comparison_id = tx.execute(sa.insert(COMPARISONS).returning(COMPARISONS.c.id), values).scalar_one()
    for position, step in enumerate(comparison.steps):
        row = {
            "comparison_id": comparison_id,
            "position": position,
            "benchmark": step.benchmark,
            "shared_parameters": step.shared_parameters,
            "name": step.name,
            "compared_with": step.compared_with,
            "rejection_reason": step.rejection_reason,
            "is_total": step.is_total,
            "numerics": [astuple(check) for check in step.numerics],
        }
        step_id = tx.execute(sa.insert(STEPS).returning(STEPS.c.id), row).scalar_one()
        _add_step_verdicts(tx, project_id, step_id, step.verdicts)


def _add_step_verdicts(tx: Session, project_id: int, step_id: int, verdicts: Iterable[Verdict]) -> None:
    rows = [
        {
            "step_id": step_id,
            "series_id": find_or_add_rows.ensure_series_id(tx, project_id, verdict.series),
            **verdict_values(verdict),
        }
        for verdict in verdicts
    ]
    if rows:
        tx.execute(sa.insert(VERDICTS), rows)


def add_goals(tx: Session, project: str, goals: Iterable[GoalRecord]) -> None:
    """Store goals: a row for each clause, and one for a goal without any."""
    project_id = find_or_add_rows.ensure_project_id(tx, project)
    rows = [
        {
            "project_id": project_id,
            "session_id": find_or_add_rows.require_session_id(tx, goal.session_uid),
            "series_id": clause.series and find_or_add_rows.ensure_series_id(tx, project_id, clause.series),
            "base": goal.base,
            "head": goal.head,
            "goal": goal.name,
            "subject": goal.subject,
            "goal_outcome": goal.outcome,
            "goal_reason": goal.reason,
            "clause": clause.text,
            "outcome": clause.outcome,
            "estimate": clause.estimate,
            "interval_lo": clause.interval and clause.interval.lo,
            "interval_hi": clause.interval and clause.interval.hi,
            "reason": clause.reason,
            "created_at": goal.created_at,
        }
        for goal in goals
        for clause in goal.clauses or (GoalClauseRecord("", goal.outcome),)
    ]
    if rows:
        tx.execute(sa.insert(CLAUSES), rows)
