"""Load comparisons of variants, ablations and goals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    GoalClauseRecord,
    GoalRecord,
    VariantComparisonRecord,
    VariantNumericsRecord,
    VariantStepRecord,
    Verdict,
)
from perfci.store.column_conversions import (
    build_interval,
    build_verdict,
    named_values_from_json,
)
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import CommitRow, RunRow, SessionRow
from perfci.store.tables.variant_comparisons import (
    GoalClauseRow,
    VariantComparisonRow,
    VariantStepRow,
    VariantVerdictRow,
)
from perfci.store.transactions import in_chunks

COMPARISONS, STEPS = VariantComparisonRow.__table__, VariantStepRow.__table__
VERDICTS, CLAUSES = VariantVerdictRow.__table__, GoalClauseRow.__table__

MAX_CARRIED = 1_000
"""Comparisons, and clauses of goals, that the run of a session carries: a document holds no more."""


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
        .order_by(COMPARISONS.c.created_at.desc(), COMPARISONS.c.id.desc())
        .limit(limit)
    )
    if sha:
        query = query.where(COMPARISONS.c.sha == sha)
    if session_uid:
        query = query.where(SessionRow.uid == session_uid)
    if before is not None:
        moment = sa.select(COMPARISONS.c.created_at).where(COMPARISONS.c.id == before).scalar_subquery()
        same_moment = sa.and_(COMPARISONS.c.created_at == moment, COMPARISONS.c.id < before)
        query = query.where(sa.or_(COMPARISONS.c.created_at < moment, same_moment))
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
                numerics=tuple(VariantNumericsRecord(*check) for check in row.numerics),
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


@dataclass(frozen=True, slots=True)
class CarriedComparisons:
    """What sessions judged by variants and goals, by the run that carries it to elsewhere."""

    comparisons: Mapping[int, Sequence[VariantComparisonRecord]] = field(default_factory=dict)
    goals: Mapping[int, Sequence[GoalRecord]] = field(default_factory=dict)


def load_comparisons_of_runs(tx: Session, run_ids: Collection[int]) -> CarriedComparisons:
    """Load what runs carry, the oldest first: the first run of a session at a commit carries all of it."""
    has_any = sa.or_(
        sa.exists().where(COMPARISONS.c.session_id == RunRow.session_id),
        sa.exists().where(CLAUSES.c.session_id == RunRow.session_id),
    )
    columns = (RunRow.id, SessionRow.uid, SessionRow.project_id, CommitRow.sha)
    query = (
        sa.select(*columns)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(has_any)
    )
    rows = [row for some in in_chunks(run_ids) for row in tx.execute(query.where(RunRow.id.in_(some)))]
    comparisons: dict[int, list[VariantComparisonRecord]] = {}
    goals: dict[int, list[GoalRecord]] = {}
    for row in rows:
        if row.id != _find_first_run_id(tx, row.uid, row.sha):
            continue
        records = load_variant_comparisons(
            tx, row.project_id, sha=row.sha, session_uid=row.uid, limit=MAX_CARRIED
        )
        comparisons[row.id] = [replace(record, id=0, is_invalid=False) for record in reversed(records)]
        of_session = load_goals(tx, row.project_id, head=row.sha, session_uids=[row.uid], limit=MAX_CARRIED)
        goals[row.id] = [replace(goal, is_invalid=False) for goal in reversed(of_session)]
    return CarriedComparisons(comparisons, goals)


def _find_first_run_id(tx: Session, session_uid: str, sha: str) -> int | None:
    query = (
        sa.select(sa.func.min(RunRow.id))
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.uid == session_uid, CommitRow.sha == sha)
    )
    return tx.scalar(query)
