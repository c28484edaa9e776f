"""List projects, series, runs and sessions as records. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Series,
    Status,
)
from perfci.store.columns import EPOCH
from perfci.store.dialects import in_chunks
from perfci.store.queries.latest_results import load_series_with_clocks, load_series_with_history_ends
from perfci.store.queries.query_records import (
    ProjectRecord,
    RunRecord,
    SeriesRecord,
    SessionRecord,
    StoredSeries,
    matches_search,
)
from perfci.store.queries.series_and_commits import (
    load_environments,
    load_machines,
    load_project_series,
    load_series,
    load_variants,
    project_id_matches,
)
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    ProjectRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
)


def load_projects_with_counts(tx: Session, only_slug: str | None = None) -> list[ProjectRecord]:
    """Load all projects by name, or only one, with their counts; no measurement is read."""
    chosen = [ProjectRow.slug == only_slug] if only_slug is not None else []
    rows = tx.execute(
        sa.select(ProjectRow.id, ProjectRow.slug).where(*chosen).order_by(ProjectRow.slug)
    ).all()
    ids = [row_id for row_id, _ in rows]
    commits = _count_by_project(tx, sa.select(CommitRow.project_id), ids)
    series = _count_by_project(tx, _select_series(), ids)
    never = _count_by_project(tx, _select_never_measured(), ids)
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


def search_series(tx: Session, project: str, *, search: str = "") -> list[SeriesRecord]:
    """Load the series of a project whose names contain every word of ``search``, with the ends of
    histories.
    """
    return load_series_with_history_ends(tx, project, search_stored_series(tx, project, search=search))


def search_stored_series(tx: Session, project: str, *, search: str = "") -> list[StoredSeries]:
    """Load the series of a project whose names contain every word of ``search``, without histories."""
    all_series = load_project_series(tx, project)
    matching = (
        {row_id: item for row_id, item in all_series.items() if matches_search(item, search)}
        if search
        else all_series
    )
    return load_series_with_clocks(tx, project, matching)


def find_series_of_benchmark(
    tx: Session, project: str, benchmark: str, metric: str = "", parameters: Mapping[str, str] | None = None
) -> list[SeriesRecord]:
    """Find the series of one benchmark, those measured last first: the newest version leads.

    A ``metric`` or ``parameters`` keep only the series of that metric or cell.
    """
    named = [BenchmarkRow.name == benchmark, *([SeriesRow.metric == metric] if metric else [])]
    matching = {
        row_id: series
        for row_id, series in load_series(
            tx, project_id_matches(BenchmarkRow.project_id, project), *named
        ).items()
        if parameters is None or dict(series.parameters) == dict(parameters)
    }
    last: dict[int, datetime] = {}
    started = sa.select(ResultRow.series_id, sa.func.max(RunRow.started_at)).join(
        RunRow, ResultRow.run_id == RunRow.id
    )
    for some in in_chunks(matching):
        last |= dict(
            tx.execute(started.where(ResultRow.series_id.in_(some)).group_by(ResultRow.series_id)).all()
        )
    records = load_series_with_history_ends(tx, project, load_series_with_clocks(tx, project, matching))
    return sorted(records, key=lambda record: (last.get(record.id, EPOCH), record.id), reverse=True)


def load_latest_result_id(tx: Session) -> int:
    """Return the id of the latest result; 0 if there is none."""
    return tx.scalar(sa.select(sa.func.max(ResultRow.id))) or 0


def load_runs_of_commit(tx: Session, project: str, sha: str) -> list[RunRecord]:
    """Load the runs of a commit, newest first, with the number of failed results."""
    failed = ResultRow.status.not_in([Status.OK.value, Status.SKIPPED.value])
    query = (
        sa.select(
            *RunRow.__table__.c,
            SessionRow.uid.label("session_uid"),
            sa.func.count(ResultRow.id).label("results"),
            sa.func.count(sa.case((failed, 1))).label("failed"),
        )
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .outerjoin(ResultRow, ResultRow.run_id == RunRow.id)
        .where(project_id_matches(CommitRow.project_id, project), CommitRow.sha == sha)
        .group_by(RunRow.id, SessionRow.uid)
        .order_by(RunRow.started_at.desc(), RunRow.id.desc())
    )
    rows = tx.execute(query).all()
    environments = load_environments(tx, {row.environment_id for row in rows})
    machines, variants = load_machines(tx), load_variants(tx)
    return [
        RunRecord(
            id=row.id,
            session_uid=row.session_uid,
            machine=machines[row.machine_id],
            environment=environments[row.environment_id],
            variant=variants[row.variant_id],
            suite=row.suite,
            harness=row.harness,
            started_at=row.started_at,
            finished_at=row.finished_at,
            results=row.results,
            failed=row.failed,
        )
        for row in rows
    ]


def load_sessions(tx: Session, project: str) -> list[SessionRecord]:
    """Load the sessions of a project, newest first."""
    query = sa.select(*SessionRow.__table__.c).where(project_id_matches(SessionRow.project_id, project))
    newest_first = query.order_by(SessionRow.started_at.desc(), SessionRow.id.desc())
    return [build_session_record(row, project) for row in tx.execute(newest_first)]


def build_session_record(row: Any, project: str) -> SessionRecord:
    """Build a session record from a row of ``sessions``."""
    return SessionRecord(
        uid=row.uid,
        project=project,
        kind=row.kind,
        spec_hash=row.spec_hash,
        seed=int(row.seed),
        rounds=row.rounds,
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def load_series_identities(tx: Session) -> Iterator[tuple[int, str, str, Series]]:
    """Every series as (id, stored identity, project, what its columns say)."""
    query = (
        sa.select(SeriesRow.id, SeriesRow.identity, ProjectRow.slug)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .join(ProjectRow, BenchmarkRow.project_id == ProjectRow.id)
    )
    series = load_series(tx)
    for row_id, stored, slug in tx.execute(query):
        yield row_id, stored, slug, series[row_id]


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
