"""Load what an evidence bundle needs beside models: row ids, and the verdicts of series and sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Series
from perfci.store.column_conversions import build_change_point, series_identity
from perfci.store.queries.history_conditions import restrict_to_history
from perfci.store.queries.query_records import SessionRecord, VerdictRecord, build_verdict_record
from perfci.store.queries.runs_and_sessions import build_session_record
from perfci.store.queries.series_commits_machines import find_series_ids_by_identity, load_series_by_ids
from perfci.store.tables.measurements import ProcessRow, ResultRow, RunRow, SessionRow
from perfci.store.tables.verdicts import ChangePointRow, VerdictRow
from perfci.store.transactions import in_chunks


class PointResult(NamedTuple):
    """A result of a history; ``is_thinned`` says that old samples of it were dropped, or all with their
    partition."""

    id: int
    run_id: int
    series_id: int
    commit_id: int
    is_thinned: bool


class ResultRowIds(NamedTuple):
    """The ids of a result and of its processes, in the order they were stored."""

    result: int
    processes: Sequence[int]


def load_point_results(
    tx: Session, commit_ids_by_series: Mapping[int, Collection[int]]
) -> Iterator[PointResult]:
    """Load the results behind some points of histories, given as commit ids by series id."""
    is_thinned = sa.or_(
        ResultRow.thinned_at.is_not(None), ~sa.exists().where(ProcessRow.result_id == ResultRow.id)
    )
    query = restrict_to_history(
        sa.select(ResultRow.id, ResultRow.run_id, ResultRow.series_id, RunRow.commit_id, is_thinned)
    )
    for some in in_chunks(commit_ids_by_series):
        of_series = query.where(ResultRow.series_id.in_(some)).order_by(ResultRow.id)
        for row in tx.execute(of_series):
            if row.commit_id in commit_ids_by_series[row.series_id]:
                yield PointResult(*row)


def load_series_of_same_cells_in_sessions(
    tx: Session, project: str, judged: Collection[Series], uids: Collection[str]
) -> dict[int, Series]:
    """Load some series by id, with all series of their cells that these sessions measured."""
    ids = set(
        find_series_ids_by_identity(tx, {series_identity(project, series) for series in judged}).values()
    )
    cells = {series.cell for series in judged}
    measured = (
        sa.select(ResultRow.series_id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .distinct()
    )
    in_sessions = {
        row_id for some in in_chunks(uids) for row_id in tx.scalars(measured.where(SessionRow.uid.in_(some)))
    }
    series = load_series_by_ids(tx, ids | in_sessions)
    return {
        row_id: series[row_id] for row_id in sorted(series) if row_id in ids or series[row_id].cell in cells
    }


def load_change_points_by_series(tx: Session, series_ids: Collection[int]) -> dict[int, list[ChangePoint]]:
    """Load the change points of some series by series id, in the order they were stored."""
    series = load_series_by_ids(tx, series_ids)
    changes: dict[int, list[ChangePoint]] = {row_id: [] for row_id in series_ids}
    query = sa.select(*ChangePointRow.__table__.c).order_by(ChangePointRow.id)
    for some in in_chunks(series_ids):
        for row in tx.execute(query.where(ChangePointRow.series_id.in_(some))):
            change = build_change_point(row, series[row.series_id])
            changes[row.series_id].append(replace(change, noise=row.noise, p_value=row.p_value))
    return changes


def load_run_ids_of_sessions(tx: Session, uids: Collection[str]) -> list[int]:
    """Load the ids of all runs of some sessions."""
    query = sa.select(RunRow.id).join(SessionRow, RunRow.session_id == SessionRow.id)
    return [
        row_id for some in in_chunks(uids) for row_id in tx.scalars(query.where(SessionRow.uid.in_(some)))
    ]


def load_run_ids_of_results(tx: Session, result_ids: Collection[int]) -> list[int]:
    """Load the ids of the runs that some results are of."""
    query = sa.select(ResultRow.run_id)
    return [
        row_id for some in in_chunks(result_ids) for row_id in tx.scalars(query.where(ResultRow.id.in_(some)))
    ]


def load_result_row_ids(
    tx: Session, run_ids: Collection[int], series_ids: Collection[int]
) -> dict[tuple[int, int], ResultRowIds]:
    """Load the ids of what runs measured of some series, by run id and series id."""
    ids: dict[tuple[int, int], ResultRowIds] = {}
    for some_runs in in_chunks(run_ids):
        for some_series in in_chunks(series_ids):
            chosen = ResultRow.run_id.in_(some_runs), ResultRow.series_id.in_(some_series)
            processes: dict[int, list[int]] = defaultdict(list)
            of_results = sa.select(ProcessRow.result_id, ProcessRow.id).join(ResultRow).where(*chosen)
            for result_id, row_id in tx.execute(of_results.order_by(ProcessRow.id)):
                processes[result_id].append(row_id)
            rows = tx.execute(sa.select(ResultRow.id, ResultRow.run_id, ResultRow.series_id).where(*chosen))
            for result_id, run_id, series_id in rows:
                ids[run_id, series_id] = ResultRowIds(result_id, processes[result_id])
    return ids


def load_verdicts_of_series(tx: Session, series_ids: Collection[int]) -> list[VerdictRecord]:
    """Load all verdicts on some series, superseded ones too, in the order they were stored."""
    return _load_verdicts(tx, [VerdictRow.series_id.in_(some) for some in in_chunks(series_ids)])


def load_verdicts_of_sessions(tx: Session, uids: Collection[str]) -> list[VerdictRecord]:
    """Load all verdicts of some sessions, superseded ones too, in the order they were stored."""
    return _load_verdicts(tx, [SessionRow.uid.in_(some) for some in in_chunks(uids)])


def _load_verdicts(tx: Session, conditions: Sequence[sa.ColumnElement[bool]]) -> list[VerdictRecord]:
    query = sa.select(*VerdictRow.__table__.c, SessionRow.uid.label("session_uid")).join(
        SessionRow, VerdictRow.session_id == SessionRow.id
    )
    rows = [row for chosen in conditions for row in tx.execute(query.where(chosen))]
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    records = [build_verdict_record(row, series[row.series_id]) for row in rows]
    return sorted(records, key=lambda record: record.id)


def load_sessions_by_uid(tx: Session, uids: Collection[str], project: str) -> list[SessionRecord]:
    """Load some sessions of a project, by their uid."""
    query = sa.select(*SessionRow.__table__.c)
    rows = [row for some in in_chunks(uids) for row in tx.execute(query.where(SessionRow.uid.in_(some)))]
    return sorted((build_session_record(row, project) for row in rows), key=lambda record: record.uid)
