"""Load results with all their samples: histories, sessions and whole runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Commit,
    Environment,
    InvalidMark,
    PerfciError,
    Point,
    Process,
    ProcessBoundaries,
    Result,
    Run,
    Series,
    Status,
)
from perfci.store.column_conversions import (
    build_process,
    build_sample_summary,
    hash_values,
    named_values_from_json,
)
from perfci.store.queries.comparisons.variant_comparisons import CarriedComparisons, load_comparisons_of_runs
from perfci.store.queries.history_conditions import (
    Condition,
    restrict_to_history,
    restrict_to_invalid_results,
)
from perfci.store.queries.invalid_marks import MarkPlace, load_marks_of_runs
from perfci.store.queries.query_records import (
    MeasuredProcess,
)
from perfci.store.queries.series_commits_machines import (
    load_commits_by_id,
    load_environments_by_id,
    load_machines_by_id,
    load_series_by_ids,
    load_variants_by_id,
    sort_commits,
)
from perfci.store.tables.measurements import (
    CommitRow,
    EnvironmentRow,
    ProcessRow,
    ProjectRow,
    ResultRow,
    RunRow,
    SessionRow,
)
from perfci.store.transactions import CHUNK, in_chunks


def load_history_points_where(
    tx: Session, condition: Condition, restrict: Callable[[Any], Any] = restrict_to_history
) -> Iterator[tuple[int, Point]]:
    """Load the history points of the chosen results, by series id, in no order."""
    for series_id, _, point in _load_points_with_commit_ids(tx, condition, restrict):
        yield series_id, point


def _load_points_with_commit_ids(
    tx: Session, condition: Condition, restrict: Callable[[Any], Any]
) -> Iterator[tuple[int, int, Point]]:
    columns = (*ResultRow.__table__.c, RunRow.commit_id, RunRow.environment_id)
    ordered = restrict(sa.select(*columns)).where(condition).order_by(RunRow.started_at, ResultRow.id)
    rows = tx.connection().execute(ordered).all()
    processes, environments = (
        load_processes_where(tx, condition),
        load_environments_by_id(tx, {row.environment_id for row in rows}),
    )
    by_id = load_commits_by_id(tx, ids={row.commit_id for row in rows})
    grouped: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for row in rows:
        grouped[row.series_id, row.commit_id].append(row)
    for (series_id, commit_id), results in grouped.items():
        yield series_id, commit_id, _build_point(by_id[commit_id], results, processes, environments)


def _build_point(
    commit: Commit,
    results: Sequence[Any],
    processes: Mapping[int, list[Process]],
    environments: Mapping[int, Environment],
) -> Point:
    """Join the results of several runs of a commit; what cannot be joined is that of the newest."""
    newest = next((row for row in reversed(results) if row.status == Status.OK), results[-1])
    kinds = {row.boundaries for row in results if row.status == Status.OK} or {newest.boundaries}
    return Point(
        commit=commit,
        status=Status(newest.status),
        processes=tuple(process for row in results for process in processes.get(row.id, ())),
        summary=build_sample_summary(newest, has_processes=newest.id in processes),
        boundaries=ProcessBoundaries(kinds.pop()) if len(kinds) == 1 else ProcessBoundaries.UNKNOWN,
        environment=environments[newest.environment_id],
        reason=newest.reason,
    )


def load_processes_where(tx: Session, condition: Condition) -> dict[int, list[Process]]:
    """Load the processes of the chosen results, by result id."""
    query = (
        sa.select(*ProcessRow.__table__.c)
        .join(ResultRow, ProcessRow.result_id == ResultRow.id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .where(condition)
        .order_by(ProcessRow.result_id, ProcessRow.id)
    )
    processes: dict[int, list[Process]] = defaultdict(list)
    for row in tx.connection().execute(query):  # past the session, whose rows cost twice as much
        processes[row.result_id].append(build_process(row))
    return processes


def load_results_where(tx: Session, condition: Condition) -> Iterator[Result]:
    """Load the chosen results with their processes."""
    return (result for _, _, result in _load_results_with_ids(tx, condition))


def _load_results_with_ids(tx: Session, condition: Condition) -> Iterator[tuple[int, int, Result]]:
    """Load the chosen results, each with the ids of its run and its series."""
    processes = load_processes_where(tx, condition)
    query = sa.select(*ResultRow.__table__.c).where(condition).order_by(ResultRow.id)
    rows = tx.connection().execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    for row in rows:
        result = Result(
            series=series[row.series_id],
            status=Status(row.status),
            processes=tuple(processes.get(row.id, ())),
            summary=build_sample_summary(row, has_processes=row.id in processes),
            boundaries=ProcessBoundaries(row.boundaries),
            number=row.number,
            reason=row.reason,
        )
        yield row.run_id, row.series_id, result


def load_history(tx: Session, series_id: int) -> list[Point]:
    """Load the history of one series, oldest commit first."""
    return load_histories_by_series_id(tx, [series_id])[series_id]


def load_histories_by_series_id(tx: Session, series_ids: Sequence[int]) -> dict[int, list[Point]]:
    """Load the histories of several series in a few queries."""
    by_series: dict[int, dict[Commit, Point]] = {series_id: {} for series_id in series_ids}
    for start in range(0, len(series_ids), CHUNK):
        for series_id, point in load_history_points_where(
            tx, ResultRow.series_id.in_(series_ids[start : start + CHUNK])
        ):
            by_series[series_id][point.commit] = point
    return {
        series_id: [points[commit] for commit in sort_commits(points)]
        for series_id, points in by_series.items()
    }


def load_points_at_commits(
    tx: Session, commits: Mapping[int, Collection[int]]
) -> Iterator[tuple[int, int, Point]]:
    """Load the points of series at some commits, as series id, commit id and point, in no order.

    ``commits`` are the ids of the commits of each series, by series id.
    """
    ids = {commit_id for commit_ids in commits.values() for commit_id in commit_ids}
    for some in in_chunks(commits):
        chosen: Condition = ResultRow.series_id.in_(some)
        if len(ids) <= CHUNK:  # of a whole history, nearly all points are needed
            chosen = sa.and_(chosen, RunRow.commit_id.in_(ids))
        for series_id, commit_id, point in _load_points_with_commit_ids(tx, chosen, restrict_to_history):
            if commit_id in commits[series_id]:
                yield series_id, commit_id, point


def load_points_of_results(tx: Session, result_ids: Collection[int]) -> Iterator[tuple[int, int, Point]]:
    """Load points that join one result each, as series id, commit id and point, in no order."""
    for some in in_chunks(result_ids):
        yield from _load_points_with_commit_ids(tx, ResultRow.id.in_(some), restrict_to_history)


def load_environments_of_history(tx: Session, series_id: int) -> dict[str, Environment]:
    """Load the environment of each commit of a series, by sha; of several runs, that of the newest.

    Empty where all of them were measured in one environment.
    """
    query = restrict_to_history(sa.select(CommitRow.sha, RunRow.environment_id))
    ordered = query.where(ResultRow.series_id == series_id).order_by(RunRow.started_at)
    ids = dict(tx.connection().execute(ordered).all())
    if len(set(ids.values())) < 2:
        return {}
    environments = load_environments_by_id(tx, set(ids.values()))
    return {sha: environments[environment_id] for sha, environment_id in ids.items()}


def load_points_of_runs(tx: Session, run_ids: Sequence[int]) -> list[tuple[Series, Point]]:
    """Load the points that some runs measured, by the sha of their commits.

    What is marked invalid is a point of its own, beside a valid one of the same commit.
    """
    chosen = RunRow.id.in_(run_ids)
    points = list(load_history_points_where(tx, chosen))
    points += _load_invalid_points(tx, chosen, run_ids)
    series = load_series_by_ids(tx, {series_id for series_id, _ in points})
    by_series = ((series[series_id], point) for series_id, point in points)
    return sorted(by_series, key=lambda pair: pair[1].commit.sha)


def _load_invalid_points(
    tx: Session, chosen: Condition, run_ids: Sequence[int]
) -> Iterator[tuple[int, Point]]:
    """Load the points that are marked invalid, each with one of its marks."""
    marks = load_marks_of_runs(tx, run_ids)
    if not marks:
        return
    query = sa.select(RunRow.id, CommitRow.sha).join(CommitRow, RunRow.commit_id == CommitRow.id)
    shas = {row.id: row.sha for row in tx.execute(query.where(chosen))}
    mark_at = {(series_id, shas[run_id]): mark for (run_id, series_id), mark in marks.items()}
    for series_id, point in load_history_points_where(tx, chosen, restrict_to_invalid_results):
        mark = mark_at.get((series_id, point.commit.sha)) or mark_at.get((None, point.commit.sha))
        yield series_id, replace(point, invalid=mark)


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


def load_run(tx: Session, run_id: int) -> Run:
    """Load a whole run, as it is exported to a document."""
    runs = load_runs(tx, [run_id])
    if not runs:
        raise PerfciError(f"There is no run {run_id}.")
    return runs[0]


def load_runs(tx: Session, run_ids: Sequence[int], series_ids: Collection[int] | None = None) -> list[Run]:
    """Load whole runs (or what they measured of some series), in the order of their ids; one that is not
    stored is left out.
    """
    query = (
        sa.select(*RunRow.__table__.c, SessionRow.uid, ProjectRow.slug)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(ProjectRow, SessionRow.project_id == ProjectRow.id)
    )
    rows = {
        row.id: row for some in in_chunks(run_ids) for row in tx.execute(query.where(RunRow.id.in_(some)))
    }
    commits = load_commits_by_id(tx, ids={row.commit_id for row in rows.values()})
    environments = load_environments_by_id(tx, {row.environment_id for row in rows.values()})
    machines, variants = load_machines_by_id(tx), load_variants_by_id(tx)
    marks = load_marks_of_runs(tx, run_ids)
    results = _load_results_with_marks(tx, run_ids, marks, series_ids)
    is_whole = series_ids is None
    carried = load_comparisons_of_runs(tx, run_ids) if is_whole else CarriedComparisons()
    return [
        Run(
            project=row.slug,
            session=row.uid,
            commit=commits[row.commit_id],
            machine=machines[row.machine_id],
            environment=environments[row.environment_id],
            variant=variants[row.variant_id],
            suite=row.suite,
            harness=row.harness,
            started_at=row.started_at,
            finished_at=row.finished_at,
            origin=named_values_from_json(row.origin),
            results=tuple(results.get(row.id, ())),
            invalid=marks.get((row.id, None)),
            variant_comparisons=tuple(carried.comparisons.get(row.id, ())),
            goals=tuple(carried.goals.get(row.id, ())),
        )
        for row in (rows[run_id] for run_id in run_ids if run_id in rows)
    ]


def _load_results_with_marks(
    tx: Session,
    run_ids: Sequence[int],
    marks: Mapping[MarkPlace, InvalidMark],
    series_ids: Collection[int] | None,
) -> dict[int, list[Result]]:
    """Load the results of runs by run id, those that are marked invalid with their marks."""
    results: dict[int, list[Result]] = defaultdict(list)
    of_runs: list[Condition] = [ResultRow.run_id.in_(some) for some in in_chunks(run_ids)]
    chosen = of_runs
    if series_ids is not None:
        chosen = [
            sa.and_(runs, ResultRow.series_id.in_(some)) for runs in of_runs for some in in_chunks(series_ids)
        ]
    for condition in chosen:
        for run_id, series_id, result in _load_results_with_ids(tx, condition):
            mark = marks.get((run_id, series_id))
            results[run_id].append(replace(result, invalid=mark) if mark else result)
    return results


def load_stored_results_of_run(tx: Session, run: Run) -> Iterator[Result]:
    """Load all stored results of the same session, commit and environment as a run's."""
    of_run = (
        SessionRow.uid == run.session,
        CommitRow.sha == run.commit.sha,
        CommitRow.dirty == run.commit.dirty,
        EnvironmentRow.identity == hash_values(run.environment.values),
    )
    run_ids = (
        sa.select(RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .join(EnvironmentRow, RunRow.environment_id == EnvironmentRow.id)
        .where(*of_run)
    )
    return load_results_where(tx, ResultRow.run_id.in_(run_ids))


def load_evidence_processes(tx: Session, ids: Sequence[int], series: Series) -> list[MeasuredProcess]:
    """Load the processes that a verdict names as evidence, in the order they were stored."""
    query = (
        sa.select(*ProcessRow.__table__.c, CommitRow.sha)
        .join(ResultRow, ProcessRow.result_id == ResultRow.id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(ProcessRow.id.in_(ids))
        .order_by(ProcessRow.id)
    )
    return [MeasuredProcess(row.id, row.sha, series, build_process(row)) for row in tx.execute(query)]
