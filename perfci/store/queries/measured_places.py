"""Load where a project is measured (branches, machines, variants), and restrict queries to some of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Machine, Variant
from perfci.store.derived_values import load_or_derive
from perfci.store.queries.history_conditions import PULL_REQUEST_KIND, Condition, project_id_condition
from perfci.store.queries.series_commits_machines import load_machines_by_id, load_variants_by_id
from perfci.store.tables.measurements import BenchmarkRow, CommitRow, RunRow, SeriesRow, SessionRow

MAX_BRANCHES = 20


@dataclass(frozen=True, slots=True)
class MeasuredPlace:
    """A machine and variant that series are measured on, with their number."""

    machine_id: int
    variant_id: int
    machine: Machine
    variant: Variant
    series_count: int


@dataclass(frozen=True, slots=True)
class PlaceFilter:
    """Which series a list keeps: those of some pairs of machine and variant; None keeps all."""

    places: frozenset[tuple[int, int]] | None = None

    def conditions(self) -> Sequence[Condition]:
        """Return the conditions on columns of series."""
        if self.places is None:
            return ()
        pairs = sorted(self.places)
        return (
            sa.or_(
                sa.false(),
                *(
                    sa.and_(SeriesRow.machine_id == machine_id, SeriesRow.variant_id == variant_id)
                    for machine_id, variant_id in pairs
                ),
            ),
        )


EVERYWHERE = PlaceFilter()


def load_measured_places(tx: Session, project: str) -> Sequence[MeasuredPlace]:
    """Load the places of a project, which readers share, those of most series first."""
    return load_or_derive(tx, project, "measured places", lambda: _count_series_by_place(tx, project))


def _count_series_by_place(tx: Session, project: str) -> Sequence[MeasuredPlace]:
    of_project = project_id_condition(BenchmarkRow.project_id, project)
    query = (
        sa.select(SeriesRow.machine_id, SeriesRow.variant_id, sa.func.count().label("series_count"))
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(of_project, SeriesRow.renamed_to.is_(None))
        .group_by(SeriesRow.machine_id, SeriesRow.variant_id)
        .order_by(sa.desc("series_count"), SeriesRow.machine_id, SeriesRow.variant_id)
    )
    rows = tx.execute(query).all()
    machines, variants = load_machines_by_id(tx), load_variants_by_id(tx)
    return [
        MeasuredPlace(
            row.machine_id,
            row.variant_id,
            machines[row.machine_id],
            variants[row.variant_id],
            row.series_count,
        )
        for row in rows
    ]


def count_commits_by_branch(tx: Session, project_id: int) -> dict[str, int]:
    """Count the commits of each branch, the longest first."""
    query = (
        sa.select(CommitRow.branch, sa.func.count().label("commits"))
        .where(CommitRow.project_id == project_id, CommitRow.branch != "")
        .group_by(CommitRow.branch)
        .order_by(sa.desc("commits"), CommitRow.branch)
        .limit(MAX_BRANCHES)
    )
    return dict(tx.execute(query).all())


def load_changing_machines(tx: Session, project: str) -> frozenset[Machine]:
    """Load the machines that runs of a project had several environments on, which readers share."""

    def load() -> frozenset[Machine]:
        query = (
            sa.select(RunRow.machine_id)
            .join(SessionRow, RunRow.session_id == SessionRow.id)
            .where(project_id_condition(SessionRow.project_id, project))
            .group_by(RunRow.machine_id)
            .having(sa.func.min(RunRow.environment_id) < sa.func.max(RunRow.environment_id))
        )
        machines = load_machines_by_id(tx)
        return frozenset(machines[machine_id] for machine_id in tx.scalars(query))

    return load_or_derive(tx, project, "changing machines", load)


def load_machines_last_seen(tx: Session, project: str) -> Sequence[tuple[Machine, datetime]]:
    """Load each machine class with when its last run ended, which readers share, the last first.

    Runs of pull requests do not count: the name of a machine in them is a stranger's.
    """
    return load_or_derive(tx, project, "machines last seen", lambda: _find_last_runs(tx, project))


def _find_last_runs(tx: Session, project: str) -> Sequence[tuple[Machine, datetime]]:
    of_project = project_id_condition(SessionRow.project_id, project)
    ended = sa.func.coalesce(RunRow.finished_at, RunRow.started_at)
    last = sa.func.max(ended, type_=RunRow.started_at.type).label("last")
    query = (
        sa.select(RunRow.machine_id, last)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(of_project, SessionRow.kind != PULL_REQUEST_KIND)
        .group_by(RunRow.machine_id)
        .order_by(sa.desc("last"), RunRow.machine_id)
    )
    rows = tx.execute(query).all()
    machines = load_machines_by_id(tx)
    return [(machines[row.machine_id], row.last) for row in rows]


def place_filter_of(places: Iterable[MeasuredPlace]) -> PlaceFilter:
    """Build the filter that keeps some places."""
    return PlaceFilter(frozenset((place.machine_id, place.variant_id) for place in places))
