"""Load the status of a project, counted in the database; only listed rows are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Commit, Series, Stage, Status, Verdict, VerdictKind
from perfci.store.column_conversions import build_change_point, build_verdict
from perfci.store.derived_values import load_or_derive
from perfci.store.queries.archived_series import load_archived_series_ids
from perfci.store.queries.history_conditions import (
    HISTORY_KINDS,
    Condition,
    current_verdict_condition,
    project_id_condition,
    pull_request_session_condition,
    restrict_to_history,
)
from perfci.store.queries.measured_series import (
    LATEST_MEASURED_RESULT,
    LATEST_RESULT,
    load_statuses_and_reasons,
    rank_newest_commits,
)
from perfci.store.queries.series_commits_machines import load_commits_newest_first, load_series_by_ids
from perfci.store.series_archive import load_archived_by_hand_ids, not_archived_condition
from perfci.store.tables.measurements import BenchmarkRow, CommitRow, ResultRow, RunRow, SeriesRow, SessionRow
from perfci.store.tables.verdicts import ChangePointRow, VerdictRow
from perfci.store.transactions import in_chunks

COMMIT_BATCH = 32
"""Commits per query in the search for a measured one: heads of pull requests may be newer."""

CURRENT = sa.and_(current_verdict_condition(), ~pull_request_session_condition(VerdictRow.session_id))
"""The newest verdict on each question; a pull request says nothing about the status of the main branch."""

CONFIRMED = sa.and_(
    CURRENT,
    VerdictRow.stage == Stage.CONFIRMATION.value,
    VerdictRow.kind.in_([VerdictKind.REGRESSION.value, VerdictKind.IMPROVEMENT.value]),
    VerdictRow.base != VerdictRow.head,
)

CELL_COLUMNS = (
    BenchmarkRow.name,
    sa.type_coerce(SeriesRow.parameters, sa.Text),
    SeriesRow.metric,
    SeriesRow.machine_id,
    SeriesRow.variant_id,
)
"""Columns that all versions of a series share."""

CellKey = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class UnmeasuredSeries:
    """A series without a value at a commit, and why."""

    series: Series
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class HeadStatus:
    """The newest measured commit and the series that are expected there.

    ``measured`` counts those with a value, ``unmeasured`` gave none, ``not_run`` have no result at all. A
    series replaced by a newer version, or that never had a value, is not expected, nor are the ``archived``
    ones, of which somebody archived ``archived_by_hand``.
    """

    head: Commit | None = None
    measured: int = 0
    unmeasured: Sequence[UnmeasuredSeries] = ()
    not_run: Sequence[Series] = ()
    archived: int = 0
    archived_by_hand: int = 0


@dataclass(frozen=True, slots=True)
class DecisionCounts:
    """Counts of commits with confirmed changes and of undecided verdicts, and whether any verdict exists."""

    change_points: int = 0
    inconclusive: int = 0
    has_verdicts: bool = False


def load_head_status(tx: Session, project: str, now: datetime | None = None) -> HeadStatus:
    """Load the status of the newest measured commit, which readers share; an empty one before the first."""
    return load_or_derive(tx, project, "head status", lambda: _find_head_status(tx, project, now))


def _find_head_status(tx: Session, project: str, now: datetime | None) -> HeadStatus:
    head = next(_measured_commits(tx, project), None)
    if head is None:
        return HeadStatus()
    of_head = (project_id_condition(CommitRow.project_id, project), CommitRow.sha == head.sha)
    at_head = _load_latest_results_at(tx, of_head)
    by_hand = load_archived_by_hand_ids(tx, project)
    ends = {cell: end for cell, end in at_head.items() if end[0] not in by_hand}
    unmeasured = {series_id: newest for series_id, newest, measured in ends.values() if measured is None}
    why, series = load_statuses_and_reasons(tx, unmeasured.values()), load_series_by_ids(tx, unmeasured)
    ended = [UnmeasuredSeries(series[series_id], *why[newest]) for series_id, newest in unmeasured.items()]
    not_run = _find_series_not_run(tx, project, of_head, at_head)
    archived = load_archived_series_ids(tx, project, now) & not_run.keys() | by_hand
    expected = (item for series_id, item in not_run.items() if series_id not in archived)
    return HeadStatus(
        head,
        len(ends) - len(ended),
        sorted(ended, key=lambda item: item.series.label),
        sorted(expected, key=lambda item: item.label),
        len(archived),
        len(by_hand),
    )


def count_changes_and_undecided_verdicts(tx: Session, project: str) -> DecisionCounts:
    """Count the decisions of a project."""
    mine = (
        project_id_condition(VerdictRow.project_id, project),
        CURRENT,
        not_archived_condition(VerdictRow.series_id),
    )
    undecided = sa.select(sa.func.count()).where(*mine, VerdictRow.kind == VerdictKind.INCONCLUSIVE.value)
    compared = sa.select(VerdictRow.id).where(*mine).exists()
    moves = _select_change_points(sa.func.count(), project)
    row = tx.execute(sa.select(moves.scalar_subquery(), undecided.scalar_subquery(), compared)).one()
    return DecisionCounts(row[0], row[1], bool(row[2]))


def find_newest_and_largest_changed_series(tx: Session, project: str, max_largest: int) -> list[int]:
    """Find the series with confirmed changes, newest first, and those with the largest changes."""
    confirmed = sa.select(VerdictRow.series_id).where(
        project_id_condition(VerdictRow.project_id, project),
        CONFIRMED,
        not_archived_condition(VerdictRow.series_id),
    )
    newest = confirmed.order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc())
    largest = _select_change_points(ChangePointRow.series_id, project).order_by(
        sa.func.abs(ChangePointRow.relative_change).desc(), ChangePointRow.id
    )
    return list(dict.fromkeys([*tx.scalars(newest), *tx.scalars(largest.limit(max_largest))]))


def load_change_ratios(tx: Session, project: str) -> list[tuple[int, float]]:
    """Load the level after each change over that before it, with the series id: changes of histories, and
    those that pairs confirmed."""
    change_points = _select_change_points(ChangePointRow.series_id, project).add_columns(
        1 + ChangePointRow.relative_change
    )
    confirmed = sa.select(VerdictRow.series_id, VerdictRow.ratio).where(
        project_id_condition(VerdictRow.project_id, project), CONFIRMED, VerdictRow.ratio.is_not(None)
    )
    rows = [row for query in (change_points, confirmed) for row in tx.connection().execute(query)]
    return [(series_id, ratio) for series_id, ratio in rows]


def load_current_verdicts(tx: Session, series_ids: Collection[int]) -> list[Verdict]:
    """Load the current verdicts of some series, newest first."""
    columns = VerdictRow.__table__.c
    query = sa.select(*columns).where(CURRENT)
    rows = [
        row
        for some in in_chunks(series_ids)
        for row in tx.connection().execute(query.where(columns.series_id.in_(some)))
    ]
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    newest_first = sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)
    return [build_verdict(row, series[row.series_id]) for row in newest_first]


def load_change_points_of_series(tx: Session, series_ids: Collection[int]) -> list[ChangePoint]:
    """Load the change points of some series in the order they were stored."""
    columns = ChangePointRow.__table__.c
    query = sa.select(*columns)
    rows = [
        row
        for some in in_chunks(series_ids)
        for row in tx.connection().execute(query.where(columns.series_id.in_(some)))
    ]
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [build_change_point(row, series[row.series_id]) for row in sorted(rows, key=lambda row: row.id)]


def _select_change_points(column: Any, project: str) -> sa.Select[Any]:
    of_series = (
        sa.select(column)
        .select_from(ChangePointRow)
        .join(SeriesRow, ChangePointRow.series_id == SeriesRow.id)
    )
    return of_series.join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id).where(
        project_id_condition(BenchmarkRow.project_id, project), not_archived_condition(SeriesRow.id)
    )


def _measured_commits(tx: Session, project: str) -> Iterator[Commit]:
    """Yield the measured commits of the main line, newest first, in small batches."""
    for limit in (COMMIT_BATCH, None):
        newest_first = [
            item for item in load_commits_newest_first(tx, project, limit=limit) if not item.dirty
        ]
        for start in range(0, len(newest_first), COMMIT_BATCH):
            some = newest_first[start : start + COMMIT_BATCH]
            chosen = (
                project_id_condition(CommitRow.project_id, project),
                CommitRow.sha.in_([item.sha for item in some]),
            )
            measured = set(tx.scalars(_select_measured_shas().where(*chosen)))
            yield from (item for item in some if item.sha in measured)


def _select_measured_shas() -> sa.Select[Any]:
    """Select the shas of commits with results in a history."""
    return (
        sa.select(CommitRow.sha)
        .distinct()
        .select_from(RunRow)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.kind.in_(HISTORY_KINDS), CommitRow.dirty.is_(False), RunRow.invalid.is_(False))
        .where(sa.select(ResultRow.id).where(ResultRow.run_id == RunRow.id).exists())
    )


def _load_latest_results_at(
    tx: Session, of_commit: Sequence[Condition]
) -> dict[CellKey, tuple[int, int, int | None]]:
    """Load the series of each cell at a commit with its newest result and its newest one with a value."""
    ends = restrict_to_history(
        sa.select(
            ResultRow.series_id, LATEST_RESULT.label("newest"), LATEST_MEASURED_RESULT.label("measured")
        )
    )
    ends_of_commit = ends.where(*of_commit).group_by(ResultRow.series_id).subquery()
    query = (
        sa.select(ends_of_commit, *CELL_COLUMNS)
        .join(SeriesRow, SeriesRow.id == ends_of_commit.c.series_id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .order_by(ends_of_commit.c.series_id.desc())
    )
    rows = tx.connection().execute(query).all()
    return {tuple(cell): (series_id, newest, measured) for series_id, newest, measured, *cell in rows}


def _find_series_not_run(
    tx: Session, project: str, of_head: Sequence[Condition], present: Collection[CellKey]
) -> dict[int, Series]:
    at_head = restrict_to_history(sa.select(ResultRow.series_id)).where(*of_head)
    history = (
        restrict_to_history(sa.select(ResultRow.id))
        .where(ResultRow.series_id == SeriesRow.id)
        .correlate(SeriesRow)
    )
    query = (
        sa.select(SeriesRow.id, *CELL_COLUMNS)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(
            project_id_condition(BenchmarkRow.project_id, project),
            SeriesRow.id.not_in(at_head),
            history.exists(),
        )
        .order_by(SeriesRow.id)
    )
    versions: dict[CellKey, list[int]] = {}
    for row_id, *cell in tx.connection().execute(query):
        if tuple(cell) not in present:
            versions.setdefault(tuple(cell), []).append(row_id)
    return load_series_by_ids(tx, _filter_measured(tx, _pick_latest_versions(tx, project, versions.values())))


def _pick_latest_versions(tx: Session, project: str, versions: Collection[Sequence[int]]) -> list[int]:
    """Pick the version that was measured last; only the ends of histories are read."""
    ranks = rank_newest_commits(tx, project, {row_id for ids in versions if len(ids) > 1 for row_id in ids})
    return [max(ids, key=lambda item: (ranks[item], -item)) if len(ids) > 1 else ids[0] for ids in versions]


def _filter_measured(tx: Session, series_ids: Collection[int]) -> list[int]:
    """Keep the series with any result that was not skipped."""
    tried = sa.select(ResultRow.id).where(
        ResultRow.series_id == SeriesRow.id, ResultRow.status != Status.SKIPPED.value
    )
    tried_series = sa.select(SeriesRow.id).where(tried.correlate(SeriesRow).exists())
    return [
        series_id
        for some in in_chunks(series_ids)
        for series_id in tx.scalars(tried_series.where(SeriesRow.id.in_(some)))
    ]
