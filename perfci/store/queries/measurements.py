"""Query measurements and verdicts, one function per question. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    ChangePoint,
    Commit,
    PerfciError,
    Point,
    Result,
    Run,
    Series,
    Status,
)
from perfci.store.columns import EPOCH, build_process, identity, to_pairs
from perfci.store.dialects import CHUNK, in_chunks
from perfci.store.queries.commit_order import sort_commits
from perfci.store.queries.latest_results import load_series_records, load_stored_series
from perfci.store.queries.loaders import (
    Condition,
    benchmark_in_project,
    build_verdict_record,
    load_commits,
    load_environments,
    load_machines,
    load_points,
    load_project_series,
    load_results,
    load_series,
    load_series_by_ids,
    load_variants,
    matches_project,
)
from perfci.store.queries.records import (
    MeasuredProcess,
    ProjectRecord,
    RunRecord,
    SeriesRecord,
    SessionRecord,
    StoredSeries,
    VerdictRecord,
    matches_search,
)
from perfci.store.tables.measurements import (
    BenchmarkRow,
    ChangePointRow,
    CommitRow,
    EnvironmentRow,
    ProcessRow,
    ProjectRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
    VerdictRow,
)

COMMITS_AT_ONCE = 32


def load_project_records(tx: Session, only_slug: str | None = None) -> list[ProjectRecord]:
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
    return load_series_records(tx, project, search_stored_series(tx, project, search=search))


def search_stored_series(tx: Session, project: str, *, search: str = "") -> list[StoredSeries]:
    """Load the series of a project whose names contain every word of ``search``, without histories."""
    all_series = load_project_series(tx, project)
    matching = (
        {row_id: item for row_id, item in all_series.items() if matches_search(item, search)}
        if search
        else all_series
    )
    return load_stored_series(tx, project, matching)


def find_series(
    tx: Session, project: str, benchmark: str, metric: str = "", parameters: Mapping[str, str] | None = None
) -> list[SeriesRecord]:
    """Find the series of one benchmark, those measured last first: the newest version leads.

    A ``metric`` or ``parameters`` keep only the series of that metric or cell.
    """
    named = [BenchmarkRow.name == benchmark, *([SeriesRow.metric == metric] if metric else [])]
    matching = {
        row_id: series
        for row_id, series in load_series(tx, benchmark_in_project(project), *named).items()
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
    records = load_series_records(tx, project, load_stored_series(tx, project, matching))
    return sorted(records, key=lambda record: (last.get(record.id, EPOCH), record.id), reverse=True)


def load_history(tx: Session, series_id: int) -> list[Point]:
    """Load the history of one series, oldest commit first."""
    return load_histories(tx, [series_id])[series_id]


def load_histories(tx: Session, series_ids: Sequence[int]) -> dict[int, list[Point]]:
    """Load the histories of several series in a few queries."""
    by_series: dict[int, dict[Commit, Point]] = {series_id: {} for series_id in series_ids}
    for start in range(0, len(series_ids), CHUNK):
        for series_id, point in load_points(tx, ResultRow.series_id.in_(series_ids[start : start + CHUNK])):
            by_series[series_id][point.commit] = point
    return {
        series_id: [points[commit] for commit in sort_commits(points)]
        for series_id, points in by_series.items()
    }


def load_latest_result_id(tx: Session) -> int:
    """Return the id of the latest result; 0 if there is none."""
    return tx.scalar(sa.select(sa.func.max(ResultRow.id))) or 0


def series_of_session(tx: Session, session_uid: str) -> list[int]:
    """Load the ids of the series that a session measured."""
    query = (
        sa.select(ResultRow.series_id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.uid == session_uid)
    )
    return sorted(set(tx.scalars(query)))


def series_with_results_since(tx: Session, project: str, result_id: int) -> list[int]:
    """Load the ids of the series that got a result after the result with this id."""
    newer = sa.select(ResultRow.series_id).where(ResultRow.id > result_id)
    query = sa.select(SeriesRow.id).join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
    return sorted(tx.scalars(query.where(benchmark_in_project(project), SeriesRow.id.in_(newer))))


def load_points_by_sha(tx: Session, project: str) -> Iterator[tuple[Series, Point]]:
    """Load every point of a project, commit by commit in the order of their shas, few at a time."""
    shas = (
        sa.select(CommitRow.id).where(matches_project(CommitRow.project_id, project)).order_by(CommitRow.sha)
    )
    commit_ids = tx.scalars(shas).all()
    series = load_series(tx, benchmark_in_project(project))
    for start in range(0, len(commit_ids), COMMITS_AT_ONCE):
        points = load_points(tx, RunRow.commit_id.in_(commit_ids[start : start + COMMITS_AT_ONCE]))
        yield from sorted(
            ((series[item], point) for item, point in points), key=lambda pair: pair[1].commit.sha
        )


def load_session_processes(tx: Session, session_uid: str) -> list[MeasuredProcess]:
    """Load all processes of a session in the order they were stored."""
    query = (
        sa.select(*ProcessRow.__table__.c, CommitRow.sha, ResultRow.series_id)
        .join(ResultRow, ProcessRow.result_id == ResultRow.id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.uid == session_uid)
        .order_by(ProcessRow.id)
    )
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [MeasuredProcess(row.id, row.sha, series[row.series_id], build_process(row)) for row in rows]


def load_verdict_records(
    tx: Session,
    project: str,
    *,
    base: str | None = None,
    head: str | None = None,
    series_id: int | None = None,
    current_only: bool = True,
    limit: int | None = None,
) -> list[VerdictRecord]:
    """Load verdicts, newest first; superseded ones only without ``current_only``."""
    query = (
        sa.select(*VerdictRow.__table__.c, SessionRow.uid.label("session_uid"))
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .join(ProjectRow, VerdictRow.project_id == ProjectRow.id)
        .where(ProjectRow.slug == project)
        .order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc())
        .limit(limit)
    )
    wanted = {VerdictRow.base: base, VerdictRow.head: head, VerdictRow.series_id: series_id}
    query = query.where(*(column == value for column, value in wanted.items() if value is not None))
    if current_only:
        query = query.where(VerdictRow.superseded_by.is_(None))
    rows = tx.connection().execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [build_verdict_record(row, series[row.series_id]) for row in rows]


def load_change_points(tx: Session, project: str, series_id: int | None = None) -> list[ChangePoint]:
    """Load the change points of a project, or of one series, in the order they were stored."""
    query = (
        sa.select(*ChangePointRow.__table__.c)
        .join(SeriesRow, ChangePointRow.series_id == SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(benchmark_in_project(project))
        .order_by(ChangePointRow.id)
    )
    if series_id is not None:
        query = query.where(ChangePointRow.series_id == series_id)
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [
        ChangePoint(
            series[row.series_id], row.commit, row.last_good, row.relative_change, row.before, row.after
        )
        for row in rows
    ]


def load_commits_newest_first(tx: Session, project: str, *, limit: int | None = None) -> list[Commit]:
    """Load the commits of a project, newest first; with a ``limit``, without reading all."""
    mine = matches_project(CommitRow.project_id, project)
    chosen = [mine] if limit is None else [mine, CommitRow.id.in_(_select_newest_commits(tx, mine, limit))]
    return sort_commits(load_commits(tx, *chosen).values())[::-1][:limit]


def _select_newest_commits(tx: Session, condition: Condition, limit: int) -> sa.Select[Any]:
    """Select the ids of the newest commits by position; all, if some have none and need their dates."""
    if tx.scalar(sa.select(CommitRow.id).where(condition, CommitRow.position.is_(None)).limit(1)) is not None:
        return sa.select(CommitRow.id).where(condition)
    by_position = (CommitRow.position.desc(), CommitRow.sha.desc(), CommitRow.dirty.desc())
    return sa.select(CommitRow.id).where(condition).order_by(*by_position).limit(limit)


def load_commits_by_sha(tx: Session, project: str, shas: Collection[str]) -> dict[str, Commit]:
    """Load commits by full sha; a clean commit is preferred to a dirty working tree."""
    commits: dict[str, Commit] = {}
    for some in in_chunks(shas):
        stored = load_commits(
            tx, matches_project(CommitRow.project_id, project), CommitRow.sha.in_(some)
        ).values()
        commits |= {item.sha: item for item in sorted(stored, key=lambda item: not item.dirty)}
    return commits


def find_commit(tx: Session, project: str, prefix: str) -> Commit | None:
    """Find a commit by a prefix of its sha; a clean commit is preferred to a dirty working tree."""
    prefix = prefix.lower()
    if not prefix:
        return None
    starting = CommitRow.sha.startswith(prefix, autoescape=True)
    matching = sorted(
        load_commits(tx, matches_project(CommitRow.project_id, project), starting).values(),
        key=lambda item: item.dirty,
    )
    shas = sorted({commit.sha for commit in matching})
    if len(shas) > 1 and prefix not in shas:
        raise PerfciError(
            f"The prefix {prefix} fits {len(shas)} commits, among them {shas[0]} and {shas[1]}: "
            "give more of it."
        )
    exact = [commit for commit in matching if commit.sha == prefix]
    return next(iter(exact or matching), None)


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
        .where(matches_project(CommitRow.project_id, project), CommitRow.sha == sha)
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
    query = sa.select(*SessionRow.__table__.c).where(matches_project(SessionRow.project_id, project))
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


def load_run(tx: Session, run_id: int) -> Run:
    """Load a whole run, as it is exported to a document."""
    query = (
        sa.select(*RunRow.__table__.c, SessionRow.uid, ProjectRow.slug)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(ProjectRow, SessionRow.project_id == ProjectRow.id)
        .where(RunRow.id == run_id)
    )
    row = tx.execute(query).first()
    if row is None:
        raise PerfciError(f"There is no run {run_id}.")
    return Run(
        project=row.slug,
        session=row.uid,
        commit=load_commits(tx, CommitRow.id == row.commit_id)[row.commit_id],
        machine=load_machines(tx)[row.machine_id],
        environment=load_environments(tx, [row.environment_id])[row.environment_id],
        variant=load_variants(tx)[row.variant_id],
        suite=row.suite,
        harness=row.harness,
        started_at=row.started_at,
        finished_at=row.finished_at,
        origin=to_pairs(row.origin),
        results=tuple(load_results(tx, ResultRow.run_id == run_id)),
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


def load_results_like(tx: Session, run: Run) -> Iterator[Result]:
    """Load all stored results of the same session, commit and environment as a run's."""
    of_run = (
        SessionRow.uid == run.session,
        CommitRow.sha == run.commit.sha,
        CommitRow.dirty == run.commit.dirty,
        EnvironmentRow.identity == identity(run.environment.values),
    )
    run_ids = (
        sa.select(RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .join(EnvironmentRow, RunRow.environment_id == EnvironmentRow.id)
        .where(*of_run)
    )
    return load_results(tx, ResultRow.run_id.in_(run_ids))


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
