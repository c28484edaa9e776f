"""List projects with the counts of what is stored for them. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Status,
)
from perfci.store.derived_values import load_or_derive
from perfci.store.queries.history_conditions import Condition
from perfci.store.queries.query_records import (
    ProjectRecord,
)
from perfci.store.series_archive import not_archived_condition
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    ProjectRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
)


def load_project_with_counts(tx: Session, project: str) -> ProjectRecord:
    """Load a project with its counts, which readers share."""
    return load_or_derive(
        tx, project, "counts", lambda: load_projects_with_counts(tx, ProjectRow.slug == project)[0]
    )


def load_projects_with_counts(tx: Session, *chosen: Condition) -> list[ProjectRecord]:
    """Load the projects that meet all conditions by name, with their counts; no measurement is read.

    Series that somebody archived do not count.
    """
    rows = tx.execute(
        sa.select(ProjectRow.id, ProjectRow.slug).where(*chosen).order_by(ProjectRow.slug)
    ).all()
    ids = [row_id for row_id, _ in rows]
    commits = _count_by_project(tx, sa.select(CommitRow.project_id), ids)
    shown = not_archived_condition(SeriesRow.id)
    series = _count_by_project(tx, _select_series().where(shown), ids)
    never = _count_by_project(tx, _select_never_measured().where(shown), ids)
    measured = _load_run_totals(tx, ids)
    return [
        ProjectRecord(
            slug,
            commits.get(row_id, 0),
            series.get(row_id, 0),
            never.get(row_id, 0),
            *measured.get(row_id, (0, 0, None)),
        )
        for row_id, slug in rows
    ]


def find_last_result_time(tx: Session, project_id: int) -> datetime | None:
    """Find when the last run of a project ended."""
    last = sa.func.max(sa.func.coalesce(RunRow.finished_at, RunRow.started_at), type_=RunRow.started_at.type)
    query = sa.select(last).join(SessionRow, RunRow.session_id == SessionRow.id)
    return tx.scalar(query.where(SessionRow.project_id == project_id))


def _count_by_project(tx: Session, by_project: sa.Select[Any], project_ids: Sequence[int]) -> dict[int, int]:
    """Count the rows of a query by project id, its first column."""
    key = by_project.selected_columns[0]
    return dict(
        tx.execute(by_project.where(key.in_(project_ids)).add_columns(sa.func.count()).group_by(key)).all()
    )


def _select_series() -> sa.Select[Any]:
    return sa.select(BenchmarkRow.project_id).join(SeriesRow, SeriesRow.benchmark_id == BenchmarkRow.id)


def _select_never_measured() -> sa.Select[Any]:
    """Select the project of each series whose results were all skipped."""
    of_series = sa.select(ResultRow.id).where(ResultRow.series_id == SeriesRow.id)
    other = of_series.where(ResultRow.status != Status.SKIPPED.value)
    return _select_series().where(of_series.exists(), ~other.exists())


def _load_run_totals(tx: Session, project_ids: Sequence[int]) -> dict[int, tuple[int, int, datetime | None]]:
    """Load the number of runs and processes of each project, and the end of the last run."""
    last = sa.func.max(sa.func.coalesce(RunRow.finished_at, RunRow.started_at), type_=RunRow.started_at.type)
    query = (
        sa.select(SessionRow.project_id, sa.func.count(), sa.func.sum(RunRow.processes), last)
        .join(RunRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.project_id.in_(project_ids))
        .group_by(SessionRow.project_id)
    )
    return {row_id: (runs, int(processes), latest) for row_id, runs, processes, latest in tx.execute(query)}
