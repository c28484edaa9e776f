"""Load which series were measured, the newest commit of each and its clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Clock,
    Series,
    Status,
)
from perfci.store.queries.history_conditions import (
    project_id_condition,
    restrict_to_history,
    select_results_without_pulls,
)
from perfci.store.queries.query_records import (
    SeriesRecord,
    StoredSeries,
)
from perfci.store.queries.series_commits_machines import (
    load_commits_by_id,
    load_shas_by_commit_id,
    sort_commits,
)
from perfci.store.queries.series_points import load_series_points_records
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    ProcessRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
)
from perfci.store.transactions import CHUNK, in_chunks

LATEST_RESULT = sa.func.max(ResultRow.id)
LATEST_MEASURED_RESULT = sa.func.max(sa.case((ResultRow.status == Status.OK.value, ResultRow.id)))

FIRST_BATCH, BATCH_GROWTH = 2, 8
"""The first batch of commits searched for the ends of histories, newest first, and the growth of batches."""


class NewestSeriesCommit(NamedTuple):
    """The newest commit of a series with its newest result and its newest result with a value."""

    position: int
    sha: str
    commit_id: int
    result_id: int
    measured_result_id: int | None


class _SeriesResults(NamedTuple):
    """The newest results of one series in all sessions, in its history or not."""

    result_id: int
    measured_result_id: int | None
    skipped_only: bool


def load_series_with_clocks(tx: Session, project: str, series: Mapping[int, Series]) -> list[StoredSeries]:
    """Load the clocks of series without their histories, sorted by name."""
    traces = _load_series_results(tx, project, series)
    clocks = load_clocks_of_results(
        tx, [trace.measured_result_id for trace in traces.values() if trace.measured_result_id is not None]
    )
    read = {row_id: clocks.get(trace.measured_result_id or 0) for row_id, trace in traces.items()}
    never = {row_id for row_id, trace in traces.items() if trace.skipped_only}
    stored = (
        StoredSeries(row_id, each_series, row_id in never, read.get(row_id))
        for row_id, each_series in series.items()
    )
    return sorted(stored, key=lambda item: (item.series.label, item.id))


def load_series_with_newest_commits(
    tx: Session, project: str, stored: Sequence[StoredSeries]
) -> list[SeriesRecord]:
    """Load the newest commits of series with their results, in a fixed number of queries."""
    points = load_series_points_records(tx, [item.id for item in stored])
    shas = load_shas_by_commit_id(tx, {record.last_commit_id for record in points.values()})
    rest = [item for item in stored if item.id not in points]
    records = {item.id: item for item in _find_newest_commits(tx, project, rest)} if rest else {}
    for item in stored:
        if record := points.get(item.id):
            newest = (record.commits, shas[record.last_commit_id], record.last_status, record.last_reason)
            records[item.id] = SeriesRecord(item.id, item.series, item.never_measured, item.clock, *newest)
    return [records[item.id] for item in stored]


def _find_newest_commits(tx: Session, project: str, stored: Sequence[StoredSeries]) -> list[SeriesRecord]:
    """Find the newest commits of series whose points are not stored."""
    points = count_series_commits(tx, project, [item.id for item in stored])
    ends = load_newest_series_commits(tx, project, set(points))
    never = [item.id for item in stored if item.never_measured and item.id not in ends]
    result_ids = (
        {row_id: trace.result_id for row_id, trace in _load_series_results(tx, project, never).items()}
        if never
        else {}
    )
    result_ids |= {row_id: end.result_id for row_id, end in ends.items() if end.measured_result_id is None}
    why = load_statuses_and_reasons(tx, result_ids.values())
    records = []
    for entry in stored:
        end = ends.get(entry.id)
        status, reason = (Status.OK if end else None), ""
        if entry.id in result_ids:
            status, reason = why[result_ids[entry.id]]
        sha, counted = end.sha if end else None, points.get(entry.id, 0)
        records.append(
            SeriesRecord(
                entry.id, entry.series, entry.never_measured, entry.clock, counted, sha, status, reason
            )
        )
    return records


def count_series_commits(tx: Session, project: str, series_ids: Collection[int]) -> dict[int, int]:
    """Count the commits in the history of each series that has one."""
    counted = sa.select(ResultRow.series_id, sa.func.count(sa.distinct(RunRow.commit_id)))
    query = restrict_to_history(counted).where(project_id_condition(SessionRow.project_id, project))
    return dict(tx.execute(_filter_series(series_ids, query).group_by(ResultRow.series_id)).all())


def rank_newest_commits(tx: Session, project: str, series_ids: Collection[int]) -> dict[int, int]:
    """Rank histories by their newest commits, later ones higher; stored points are read where they hold."""
    points = load_series_points_records(tx, series_ids)
    if len(points) < len(series_ids):
        ends = load_newest_series_commits(tx, project, series_ids)
        return {series_id: end.position for series_id, end in ends.items()}
    commits = load_commits_by_id(tx, ids={record.last_commit_id for record in points.values()})
    places = {commit: place for place, commit in enumerate(sort_commits(commits.values()))}
    return {series_id: places[commits[record.last_commit_id]] for series_id, record in points.items()}


def load_newest_series_commits(
    tx: Session, project: str, series_ids: Collection[int]
) -> dict[int, NewestSeriesCommit]:
    """Load the newest commit of each history; most histories end within the newest commits, so those come
    first.
    """
    commits = load_commits_by_id(tx, project_id_condition(CommitRow.project_id, project))
    place_of = {commit: place for place, commit in enumerate(sort_commits(commits.values()))}
    places = {row_id: place_of[commit] for row_id, commit in commits.items()}
    newest_first = sorted(places, key=places.__getitem__, reverse=True)
    query = restrict_to_history(
        sa.select(ResultRow.series_id, RunRow.commit_id, LATEST_RESULT, LATEST_MEASURED_RESULT)
    )
    grouped = query.group_by(ResultRow.series_id, RunRow.commit_id)
    ends: dict[int, NewestSeriesCommit] = {}
    left, start, count = set(series_ids), 0, FIRST_BATCH
    while left and start < len(newest_first):
        some = newest_first[start : start + count]
        here = _filter_series(left, grouped.where(RunRow.commit_id.in_(some)))
        for series_id, commit_id, *outcome in tx.connection().execute(here):
            end = NewestSeriesCommit(places[commit_id], commits[commit_id].sha, commit_id, *outcome)
            ends[series_id] = max(ends.get(series_id, end), end)
        left.difference_update(ends)
        start, count = start + count, min(count * BATCH_GROWTH, CHUNK)
    return ends


def _load_series_results(tx: Session, project: str, series_ids: Collection[int]) -> dict[int, _SeriesResults]:
    """Load the newest results of series by one index lookup each: grouping all results takes 30 times as
    long.
    """
    of_series = select_results_without_pulls().where(ResultRow.series_id == SeriesRow.id).correlate(SeriesRow)
    newest = of_series.order_by(ResultRow.id.desc()).limit(1)
    measured = newest.where(ResultRow.status == Status.OK.value)
    tried = of_series.where(ResultRow.status != Status.SKIPPED.value).exists()
    query = (
        sa.select(SeriesRow.id, newest.scalar_subquery(), measured.scalar_subquery(), tried)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(project_id_condition(BenchmarkRow.project_id, project))
    )
    rows = tx.connection().execute(_filter_series(series_ids, query, SeriesRow.id))
    return {
        series_id: _SeriesResults(new, ok, not tried) for series_id, new, ok, tried in rows if new is not None
    }


def _filter_series(series_ids: Collection[int], query: Any, column: Any = ResultRow.series_id) -> Any:
    """Filter by series ids while they fit into one query."""
    return query.where(column.in_(series_ids)) if len(series_ids) <= CHUNK else query


def load_statuses_and_reasons(tx: Session, result_ids: Collection[int]) -> dict[int, tuple[Status, str]]:
    """Load the status of results, and the reason of those without a value."""
    query = sa.select(ResultRow.id, ResultRow.status, ResultRow.reason)
    rows = (row for some in in_chunks(result_ids) for row in tx.execute(query.where(ResultRow.id.in_(some))))
    return {row_id: (Status(status), reason) for row_id, status, reason in rows}


def load_clocks_of_results(tx: Session, result_ids: Collection[int]) -> dict[int, Clock]:
    """Load the clocks of results; those without processes are left out."""
    query = sa.select(ProcessRow.result_id, sa.func.max(ProcessRow.clock)).group_by(ProcessRow.result_id)
    measured = query.where(ProcessRow.status == Status.OK.value)
    rows = (
        row
        for some in in_chunks(result_ids)
        for row in tx.execute(measured.where(ProcessRow.result_id.in_(some)))
    )
    return {row_id: Clock(clock) for row_id, clock in rows}


def load_series_ids_of_session(tx: Session, session_uid: str) -> list[int]:
    """Load the ids of the series that a session measured."""
    query = (
        sa.select(ResultRow.series_id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.uid == session_uid)
    )
    return sorted(set(tx.scalars(query)))


def load_series_ids_with_newer_results(tx: Session, project: str, result_id: int) -> list[int]:
    """Load the ids of the series that got a result after the result with this id."""
    newer = sa.select(ResultRow.series_id).where(ResultRow.id > result_id)
    query = sa.select(SeriesRow.id).join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
    return sorted(
        tx.scalars(
            query.where(project_id_condition(BenchmarkRow.project_id, project), SeriesRow.id.in_(newer))
        )
    )


def load_latest_result_id(tx: Session) -> int:
    """Return the id of the latest result; 0 if there is none."""
    return tx.scalar(sa.select(sa.func.max(ResultRow.id))) or 0
