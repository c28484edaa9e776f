"""Save and load comparisons of variants, ablations and goals. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Interval, NamedValues, Series, Verdict
from perfci.store.column_conversions import (
    build_interval,
    build_verdict,
    named_values_from_json,
    verdict_values,
)
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import RunRow, SessionRow
from perfci.store.tables.variant_comparisons import (
    GoalClauseRow,
    VariantComparisonRow,
    VariantStepRow,
    VariantVerdictRow,
)
from perfci.store.transactions import in_chunks
from perfci.store.writes import find_or_add_rows

COMPARISONS, STEPS = VariantComparisonRow.__table__, VariantStepRow.__table__
VERDICTS, CLAUSES = VariantVerdictRow.__table__, GoalClauseRow.__table__


@dataclass(frozen=True, slots=True)
class VariantStepRecord:
    """One variant or step at one benchmark with its verdicts; ``is_total`` is that of an ablation.

    The first one of a benchmark is compared with nothing. One with a ``rejection_reason`` does not count.
    """

    benchmark: str
    shared_parameters: NamedValues
    name: str
    compared_with: str = ""
    verdicts: tuple[Verdict, ...] = ()
    rejection_reason: str = ""
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class VariantComparisonRecord:
    """A comparison of variants of one commit: its kind is ``vary`` or ``ablation``.

    ``name`` is what was varied, or the name of the ablation. ``is_invalid`` says that a run it rests on was
    marked as invalid.
    """

    kind: str
    name: str
    sha: str
    session_uid: str
    created_at: datetime
    steps: tuple[VariantStepRecord, ...]
    id: int = 0
    is_invalid: bool = False


@dataclass(frozen=True, slots=True)
class GoalClauseRecord:
    """One judged clause; estimate and interval are in the unit of the clause."""

    text: str
    outcome: str
    series: Series | None = None
    estimate: float | None = None
    interval: Interval | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GoalRecord:
    """A goal as one session judged it; ``subject`` names the variants it was judged on."""

    name: str
    subject: str
    outcome: str
    reason: str
    base: str
    head: str
    session_uid: str
    created_at: datetime
    clauses: tuple[GoalClauseRecord, ...]
    is_invalid: bool = False


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


def load_variant_comparisons(
    tx: Session,
    project_id: int,
    *,
    sha: str = "",
    session_uid: str = "",
    before: int | None = None,
    limit: int,
) -> list[VariantComparisonRecord]:
    """Load comparisons of variants, the newest first: of a commit, of a session, or before one by its id."""
    query = (
        sa.select(*COMPARISONS.c, SessionRow.uid.label("session_uid"), _has_invalid_run(COMPARISONS))
        .join(SessionRow, COMPARISONS.c.session_id == SessionRow.id)
        .where(COMPARISONS.c.project_id == project_id)
        .order_by(COMPARISONS.c.id.desc())
        .limit(limit)
    )
    if sha:
        query = query.where(COMPARISONS.c.sha == sha)
    if session_uid:
        query = query.where(SessionRow.uid == session_uid)
    if before is not None:
        query = query.where(COMPARISONS.c.id < before)
    rows = tx.execute(query).all()
    steps = _load_steps(tx, [row.id for row in rows])
    return [
        VariantComparisonRecord(
            kind=row.kind,
            name=row.name,
            sha=row.sha,
            session_uid=row.session_uid,
            created_at=row.created_at,
            steps=tuple(steps[row.id]),
            id=row.id,
            is_invalid=row.is_invalid,
        )
        for row in rows
    ]


def _has_invalid_run(table: sa.Table) -> sa.ColumnElement[bool]:
    """Whether a run of the session was marked as invalid."""
    runs = sa.select(RunRow.id).where(RunRow.session_id == table.c.session_id, RunRow.invalid)
    return runs.exists().label("is_invalid")


def _load_steps(tx: Session, comparison_ids: Collection[int]) -> dict[int, list[VariantStepRecord]]:
    """Load the steps of comparisons in their order, by comparison id."""
    query = sa.select(*STEPS.c).where(STEPS.c.comparison_id.in_(comparison_ids)).order_by(STEPS.c.position)
    rows = tx.execute(query).all()
    verdicts = _load_step_verdicts(tx, [row.id for row in rows])
    steps: dict[int, list[VariantStepRecord]] = defaultdict(list)
    for row in rows:
        steps[row.comparison_id].append(
            VariantStepRecord(
                benchmark=row.benchmark,
                shared_parameters=named_values_from_json(row.shared_parameters),
                name=row.name,
                compared_with=row.compared_with,
                verdicts=tuple(verdicts[row.id]),
                rejection_reason=row.rejection_reason,
                is_total=row.is_total,
            )
        )
    return steps


def _load_step_verdicts(tx: Session, step_ids: Collection[int]) -> dict[int, list[Verdict]]:
    query = sa.select(*VERDICTS.c).order_by(VERDICTS.c.id)
    rows: list[Any] = []
    for some in in_chunks(step_ids):
        rows += tx.execute(query.where(VERDICTS.c.step_id.in_(some))).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    verdicts: dict[int, list[Verdict]] = defaultdict(list)
    for row in rows:
        verdicts[row.step_id].append(build_verdict(row, series[row.series_id]))
    return verdicts


def load_goals(
    tx: Session,
    project_id: int,
    *,
    head: str = "",
    session_uids: Collection[str] | None = None,
    with_variants: bool = True,
    limit: int,
) -> list[GoalRecord]:
    """Load judged goals, the newest first: of a head commit, or of sessions; ``limit`` counts clauses.

    Without ``with_variants`` those alone that two commits were judged by.
    """
    query = (
        sa.select(*CLAUSES.c, SessionRow.uid.label("session_uid"), _has_invalid_run(CLAUSES))
        .join(SessionRow, CLAUSES.c.session_id == SessionRow.id)
        .where(CLAUSES.c.project_id == project_id)
        .order_by(CLAUSES.c.id.desc())
        .limit(limit)
    )
    if head:
        query = query.where(CLAUSES.c.head == head)
    if session_uids is not None:
        query = query.where(SessionRow.uid.in_(session_uids))
    if not with_variants:
        of_variants = sa.select(COMPARISONS.c.id).where(COMPARISONS.c.session_id == CLAUSES.c.session_id)
        query = query.where(~of_variants.exists())
    return _build_goals(tx, tx.execute(query).all())


def _build_goals(tx: Session, rows: Sequence[Any]) -> list[GoalRecord]:
    """Join the clauses of each goal, in the order in which they were stored; the newest goal comes first."""
    series = load_series_by_ids(tx, {row.series_id for row in rows if row.series_id is not None})
    clauses_by_goal: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for row in rows:
        clauses_by_goal[row.session_uid, row.goal, row.subject].insert(0, row)
    return [
        GoalRecord(
            name=first.goal,
            subject=first.subject,
            outcome=first.goal_outcome,
            reason=first.goal_reason,
            base=first.base,
            head=first.head,
            session_uid=first.session_uid,
            created_at=first.created_at,
            clauses=tuple(
                GoalClauseRecord(
                    row.clause,
                    row.outcome,
                    series.get(row.series_id),
                    row.estimate,
                    build_interval(row.interval_lo, row.interval_hi),
                    row.reason,
                )
                for row in goal_rows
                if row.clause
            ),
            is_invalid=first.is_invalid,
        )
        for goal_rows in clauses_by_goal.values()
        for first in goal_rows[:1]
    ]


def count_variant_results(tx: Session, project_id: int, sha: str) -> tuple[int, int]:
    """Count the comparisons of variants of a commit, and the clauses of goals judged with it as the head."""
    of_commit = sa.select(sa.func.count()).where(COMPARISONS.c.project_id == project_id)
    clauses = sa.select(sa.func.count()).where(CLAUSES.c.project_id == project_id, CLAUSES.c.head == sha)
    return tx.scalar(of_commit.where(COMPARISONS.c.sha == sha)) or 0, tx.scalar(clauses) or 0
