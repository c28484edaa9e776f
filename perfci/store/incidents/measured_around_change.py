"""Load what was measured on both sides of a change: the nearest runs in each place, and what moved there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Environment, Machine, Series, Status, Variant
from perfci.store.queries.history_conditions import HISTORY_KINDS
from perfci.store.queries.series_commits_machines import (
    load_environments_by_id,
    load_machines_by_id,
    load_series_by_ids,
    load_variants_by_id,
)
from perfci.store.tables.measurements import BenchmarkRow, CommitRow, ResultRow, RunRow, SeriesRow, SessionRow
from perfci.store.tables.verdicts import ChangePointRow

NEAR_RUNS = 200
"""Runs before and after a change among which the nearest of each place are sought."""

MAX_SERIES = 2000
"""Series of one benchmark list that are looked up."""


@dataclass(frozen=True, slots=True)
class CommitWindow:
    """The commits that may have made a change: after the last good one, up to the first changed one.

    The ends are places on the branch, or dates where the commits have no places.
    """

    branch: str
    last_good: int | datetime
    last: int | datetime

    @property
    def order(self) -> sa.ColumnElement[Any]:
        """The column that the ends are values of."""
        return CommitRow.__table__.c["committed_at" if isinstance(self.last, datetime) else "position"]


@dataclass(frozen=True, slots=True)
class PlaceAroundChange:
    """A machine and variant with runs on both sides of a change.

    ``run_ids`` are the nearest runs after it, one for each suite, ``before`` and ``after`` the environments
    of the nearest runs.
    """

    machine_id: int
    variant_id: int
    machine: Machine
    variant: Variant
    run_ids: tuple[int, ...]
    before: Environment
    after: Environment
    first_run_at: datetime
    last_run_at: datetime


def find_commit_window(tx: Session, project_id: int, last_good: str, commit: str) -> CommitWindow | None:
    """Find the window of a change; None where the order of its commits is not known."""
    query = sa.select(CommitRow.sha, CommitRow.branch, CommitRow.position, CommitRow.committed_at).where(
        CommitRow.project_id == project_id, CommitRow.dirty.is_(False), CommitRow.sha.in_((last_good, commit))
    )
    ends = {row.sha: row for row in tx.execute(query)}
    if last_good not in ends or commit not in ends or ends[last_good].branch != ends[commit].branch:
        return None
    before, after = ends[last_good], ends[commit]
    if before.position is not None and after.position is not None:
        first, last = before.position, after.position
    else:
        first, last = before.committed_at, after.committed_at
    if first is None or last is None or first >= last:
        return None
    return CommitWindow(after.branch, first, last)


def load_places_around_change(tx: Session, project_id: int, window: CommitWindow) -> list[PlaceAroundChange]:
    """Load the places that measured both sides of a change, those of most suites first."""
    order = window.order
    nearest_first = order.desc(), RunRow.id.desc()
    befores: dict[tuple[int, int], Any] = {}
    for row in tx.connection().execute(
        _select_runs(project_id, window, order <= window.last_good, nearest_first)
    ):
        befores.setdefault((row.machine_id, row.variant_id), row)
    afters: dict[tuple[int, int], dict[str, Any]] = {}
    for row in tx.connection().execute(
        _select_runs(project_id, window, order >= window.last, (order, RunRow.id))
    ):
        afters.setdefault((row.machine_id, row.variant_id), {}).setdefault(row.suite, row)
    both = sorted(befores.keys() & afters.keys(), key=lambda place: (-len(afters[place]), place))
    nearest = {place: next(iter(afters[place].values())) for place in both}
    environments = load_environments_by_id(
        tx, {row.environment_id for place in both for row in (befores[place], nearest[place])}
    )
    machines, variants = load_machines_by_id(tx), load_variants_by_id(tx)
    return [
        PlaceAroundChange(
            *place,
            machines[place[0]],
            variants[place[1]],
            tuple(row.id for row in afters[place].values()),
            environments[befores[place].environment_id],
            environments[nearest[place].environment_id],
            min(befores[place].started_at, nearest[place].started_at),
            max(befores[place].started_at, nearest[place].started_at),
        )
        for place in both
    ]


def _select_runs(
    project_id: int, window: CommitWindow, side: sa.ColumnElement[bool], nearest_first: tuple[Any, ...]
) -> sa.Select[Any]:
    """Select the runs of the history on one side of a change, the nearest first."""
    columns = ("id", "machine_id", "variant_id", "suite", "environment_id", "started_at")
    return (
        sa.select(*(RunRow.__table__.c[name] for name in columns))
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(
            CommitRow.project_id == project_id,
            CommitRow.branch == window.branch,
            CommitRow.dirty.is_(False),
            side,
            SessionRow.kind.in_(HISTORY_KINDS),
            RunRow.invalid.is_(False),
        )
        .order_by(*nearest_first)
        .limit(NEAR_RUNS)
    )


def load_series_moved_in_window(tx: Session, project_id: int, window: CommitWindow) -> dict[int, Series]:
    """Load the series of a project with a change point in the window of a change, by id."""
    query = (
        sa.select(ChangePointRow.series_id)
        .join(SeriesRow, ChangePointRow.series_id == SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .join(
            CommitRow,
            sa.and_(CommitRow.project_id == BenchmarkRow.project_id, CommitRow.sha == ChangePointRow.commit),
        )
        .where(
            BenchmarkRow.project_id == project_id,
            CommitRow.branch == window.branch,
            CommitRow.dirty.is_(False),
            window.order > window.last_good,
            window.order <= window.last,
        )
    )
    return load_series_by_ids(tx, set(tx.scalars(query)))


def load_measured_series(
    tx: Session, run_ids: Collection[int], benchmarks: Collection[str] | None = None
) -> list[Series]:
    """Load the series that some runs have a value of, at most of some benchmarks."""
    query = _select_measured(run_ids, ResultRow.series_id)
    if benchmarks is not None:
        query = query.where(BenchmarkRow.name.in_(benchmarks))
    return list(load_series_by_ids(tx, set(tx.scalars(query.limit(MAX_SERIES)))).values())


def count_measured_cells(tx: Session, run_ids: Collection[int], except_benchmark: str) -> int:
    """Count the cells that some runs have a value of, but for those of one benchmark."""
    cells = _select_measured(run_ids, SeriesRow.benchmark_id, sa.type_coerce(SeriesRow.parameters, sa.Text))
    others = cells.where(BenchmarkRow.name != except_benchmark).distinct().subquery()
    return tx.scalar(sa.select(sa.func.count()).select_from(others)) or 0


def _select_measured(run_ids: Collection[int], *columns: Any) -> sa.Select[Any]:
    """Select from the results with a value of some runs."""
    return (
        sa.select(*columns)
        .select_from(ResultRow)
        .join(SeriesRow, ResultRow.series_id == SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(ResultRow.run_id.in_(run_ids), ResultRow.status == Status.OK.value)
    )
