"""How a project stands: counted in the database, with rows of only what a page lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Commit, Series, Stage, Status, Verdict, VerdictKind
from perfci.store import conversions
from perfci.store.dialects import in_chunks
from perfci.store.queries.latest_results import NEWEST, NEWEST_MEASURED, ends_of, statuses_of
from perfci.store.queries.loaders import HISTORY_KINDS, Condition, in_history, of_project, project_of, series_by_ids
from perfci.store.queries.measurements import commits
from perfci.store.tables.measurements import (
    BenchmarkRow,
    ChangePointRow,
    CommitRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
    VerdictRow,
)
from perfci.store.writes.row_ids import table

FIRST_LOOK = 32
"""Commits that are looked at for one that was measured: heads of pull requests may be newer."""

CONVICTED = sa.and_(
    VerdictRow.superseded_by.is_(None),
    VerdictRow.stage == Stage.CONVICTION.value,
    VerdictRow.kind.in_([VerdictKind.REGRESSION.value, VerdictKind.IMPROVEMENT.value]),
    VerdictRow.base != VerdictRow.head,
)

CELL = (
    BenchmarkRow.name,
    sa.type_coerce(SeriesRow.parameters, sa.Text),
    SeriesRow.metric,
    SeriesRow.machine_id,
    SeriesRow.variant_id,
)
"""What the versions of a series share."""

Cell = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A series without a value at a commit, and why."""

    series: Series
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class AtHead:
    """What the newest measured commit has of the series that are still measured.

    ``ended`` gave no value there, ``not_run`` are not there at all. One that another version replaced is no longer
    expected, nor is one that never had a value.
    """

    head: Commit | None = None
    measured: int = 0
    ended: Sequence[Ended] = ()
    not_run: Sequence[Series] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """How much was decided: commits where a level moved, verdicts that settled nothing, and whether there are any."""

    change_points: int = 0
    undecided: int = 0
    compared: bool = False


def at_head(tx: Session, project: str) -> AtHead:
    head = next(_measured_commits(tx, project), None)
    if head is None:
        return AtHead()
    of_head = (project_of(CommitRow.project_id, project), CommitRow.sha == head.sha)
    ends = _ends_at(tx, of_head)
    unmeasured = {series_id: newest for series_id, newest, measured in ends.values() if measured is None}
    why, series = statuses_of(tx, unmeasured.values()), series_by_ids(tx, unmeasured)
    ended = [Ended(series[series_id], *why[newest]) for series_id, newest in unmeasured.items()]
    return AtHead(
        head,
        len(ends) - len(ended),
        sorted(ended, key=lambda one: one.series.label),
        _not_run(tx, project, of_head, ends),
    )


def tally(tx: Session, project: str) -> Tally:
    mine = (project_of(VerdictRow.project_id, project), VerdictRow.superseded_by.is_(None))
    undecided = sa.select(sa.func.count()).where(*mine, VerdictRow.kind == VerdictKind.INCONCLUSIVE.value)
    compared = sa.select(VerdictRow.id).where(*mine).exists()
    moves = _moves(sa.func.count(), project)
    row = tx.execute(sa.select(moves.scalar_subquery(), undecided.scalar_subquery(), compared)).one()
    return Tally(row[0], row[1], bool(row[2]))


def series_that_moved(tx: Session, project: str, candidates: int) -> list[int]:
    """The series with a confirmed change, the newest first, and those with the largest of all changes of a level."""
    convicted = sa.select(VerdictRow.series_id).where(project_of(VerdictRow.project_id, project), CONVICTED)
    newest = convicted.order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc())
    largest = _moves(ChangePointRow.series_id, project).order_by(
        sa.func.abs(ChangePointRow.rel).desc(), ChangePointRow.id
    )
    return list(dict.fromkeys([*tx.scalars(newest), *tx.scalars(largest.limit(candidates))]))


def verdicts_of(tx: Session, series_ids: Collection[int]) -> list[Verdict]:
    """What was decided about some series and stands, newest first."""
    columns = table(VerdictRow).c
    query = sa.select(*columns).where(columns.superseded_by.is_(None))
    rows = [
        row
        for some in in_chunks(series_ids)
        for row in tx.connection().execute(query.where(columns.series_id.in_(some)))
    ]
    series = series_by_ids(tx, {row.series_id for row in rows})
    newest_first = sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)
    return [conversions.verdict_of(row, series[row.series_id]) for row in newest_first]


def changes_of(tx: Session, series_ids: Collection[int]) -> list[ChangePoint]:
    """The change points of some series, in the order they were stored."""
    columns = table(ChangePointRow).c
    query = sa.select(*columns)
    rows = [
        row
        for some in in_chunks(series_ids)
        for row in tx.connection().execute(query.where(columns.series_id.in_(some)))
    ]
    series = series_by_ids(tx, {row.series_id for row in rows})
    return [
        ChangePoint(series[row.series_id], row.commit, row.last_good, row.rel, row.before, row.after)
        for row in sorted(rows, key=lambda row: row.id)
    ]


def _moves(column: Any, project: str) -> sa.Select[Any]:
    of_series = sa.select(column).select_from(ChangePointRow).join(SeriesRow, ChangePointRow.series_id == SeriesRow.id)
    return of_series.join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id).where(of_project(project))


def _measured_commits(tx: Session, project: str) -> Iterator[Commit]:
    """The commits of the line that something was measured of, newest first, few asked for at a time."""
    for limit in (FIRST_LOOK, None):
        newest_first = [one for one in commits(tx, project, limit=limit) if not one.dirty]
        for start in range(0, len(newest_first), FIRST_LOOK):
            some = newest_first[start : start + FIRST_LOOK]
            chosen = (project_of(CommitRow.project_id, project), CommitRow.sha.in_([one.sha for one in some]))
            measured = set(tx.scalars(_with_results().where(*chosen)))
            yield from (one for one in some if one.sha in measured)


def _with_results() -> sa.Select[Any]:
    """The shas of commits whose runs for the history have results."""
    return (
        sa.select(CommitRow.sha)
        .distinct()
        .select_from(RunRow)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.kind.in_(HISTORY_KINDS), CommitRow.dirty.is_(False))
        .where(sa.select(ResultRow.id).where(ResultRow.run_id == RunRow.id).exists())
    )


def _ends_at(tx: Session, of_commit: Sequence[Condition]) -> dict[Cell, tuple[int, int, int | None]]:
    """The series of each cell that is there at a commit, its newest result, and the newest with a value."""
    ends = in_history(sa.select(ResultRow.series_id, NEWEST.label("newest"), NEWEST_MEASURED.label("measured")))
    found = ends.where(*of_commit).group_by(ResultRow.series_id).subquery()
    query = (
        sa.select(found, *CELL)
        .join(SeriesRow, SeriesRow.id == found.c.series_id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .order_by(found.c.series_id.desc())
    )
    rows = tx.connection().execute(query).all()
    return {tuple(cell): (series_id, newest, measured) for series_id, newest, measured, *cell in rows}


def _not_run(tx: Session, project: str, of_head: Sequence[Condition], there: Collection[Cell]) -> list[Series]:
    at_head = in_history(sa.select(ResultRow.series_id)).where(*of_head)
    history = in_history(sa.select(ResultRow.id)).where(ResultRow.series_id == SeriesRow.id).correlate(SeriesRow)
    query = (
        sa.select(SeriesRow.id, *CELL)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(of_project(project), SeriesRow.id.not_in(at_head), history.exists())
        .order_by(SeriesRow.id)
    )
    versions: dict[Cell, list[int]] = {}
    for row_id, *cell in tx.connection().execute(query):
        if tuple(cell) not in there:
            versions.setdefault(tuple(cell), []).append(row_id)
    series = series_by_ids(tx, _ever_measured(tx, _newest(tx, project, versions.values())))
    return sorted(series.values(), key=lambda one: one.label)


def _newest(tx: Session, project: str, versions: Collection[Sequence[int]]) -> list[int]:
    """Of several versions the one that was measured last; only their ends are looked for."""
    ends = ends_of(tx, project, {row_id for ids in versions if len(ids) > 1 for row_id in ids})
    return [max(ids, key=lambda one: (ends[one].place, -one)) if len(ids) > 1 else ids[0] for ids in versions]


def _ever_measured(tx: Session, series_ids: Collection[int]) -> list[int]:
    """Those of which something but *skipped* is known."""
    tried = sa.select(ResultRow.id).where(ResultRow.series_id == SeriesRow.id, ResultRow.status != Status.SKIPPED.value)
    known = sa.select(SeriesRow.id).where(tried.correlate(SeriesRow).exists())
    return [found for some in in_chunks(series_ids) for found in tx.scalars(known.where(SeriesRow.id.in_(some)))]
