"""Load what the machines of a project did lately, and when their environments changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit, Environment, Machine, Status
from perfci.store.queries.history_conditions import HISTORY_KINDS, PULL_REQUEST_KIND
from perfci.store.queries.series_commits_machines import (
    load_commits_by_id,
    load_environments_by_id,
    load_machines_by_id,
)
from perfci.store.tables.measurements import ResultRow, RunRow, SessionRow

REPORTED_AT = sa.func.coalesce(RunRow.received_at, RunRow.started_at, type_=RunRow.started_at.type)
"""When a run arrived, else when it was measured."""


@dataclass(frozen=True, slots=True)
class MachineActivity:
    """The runs of one machine: all, those since some times, and the failed results of the last of these."""

    machine_id: int
    machine: Machine
    suites: tuple[str, ...]
    runs: int
    runs_since: tuple[int, ...]
    failed_results: int
    last_run_at: datetime


def load_machine_activity(tx: Session, project_id: int, since: Sequence[datetime]) -> list[MachineActivity]:
    """Load them, the machine that ran last first; runs of pull requests may claim any machine, and are left
    out. ``since`` are times, the latest first.
    """
    query = (
        _select_runs(
            project_id,
            RunRow.machine_id,
            RunRow.suite,
            sa.func.count().label("runs"),
            *(sa.func.count(sa.case((moment <= REPORTED_AT, 1))) for moment in since),
            sa.func.max(REPORTED_AT, type_=RunRow.started_at.type).label("last_run_at"),
        )
        .group_by(RunRow.machine_id, RunRow.suite)
        .order_by(RunRow.suite)
    )
    by_machine = defaultdict(list)
    for row in tx.execute(query):
        by_machine[row.machine_id].append(row)
    failed, machines = _count_failed_results(tx, project_id, since[-1]), load_machines_by_id(tx)
    activities = [
        MachineActivity(
            machine_id,
            machines[machine_id],
            tuple(row.suite for row in rows),
            sum(row.runs for row in rows),
            tuple(sum(row[3 + place] for row in rows) for place in range(len(since))),
            failed.get(machine_id, 0),
            max(row.last_run_at for row in rows),
        )
        for machine_id, rows in by_machine.items()
    ]
    return sorted(activities, key=lambda activity: (activity.last_run_at, activity.machine_id), reverse=True)


def _count_failed_results(tx: Session, project_id: int, since: datetime) -> dict[int, int]:
    query = (
        _select_runs(project_id, RunRow.machine_id, sa.func.count(ResultRow.id))
        .join(ResultRow, ResultRow.run_id == RunRow.id)
        .where(since <= REPORTED_AT)
        .where(ResultRow.status.not_in([Status.OK.value, Status.SKIPPED.value]))
        .group_by(RunRow.machine_id)
    )
    return dict(tx.execute(query).all())


def _select_runs(project_id: int, *columns: Any) -> sa.Select[Any]:
    return (
        sa.select(*columns)
        .select_from(RunRow)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.project_id == project_id, SessionRow.kind != PULL_REQUEST_KIND)
    )


@dataclass(frozen=True, slots=True)
class EnvironmentSwitch:
    """Two runs in a row of one suite and variant on one machine, in different environments."""

    machine: Machine
    suite: str
    variant_id: int
    before: Environment
    after: Environment
    base: Commit
    head: Commit
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class EnvironmentRecord:
    """The runs of a machine in the history, the first of them, and the environment of the last."""

    machine: Machine
    runs: int
    first_run_at: datetime
    last_run_at: datetime
    newest: Environment


def load_environment_switches(tx: Session, project_id: int, limit: int) -> list[EnvironmentSwitch]:
    """Load the newest switches of the runs of the history, in the order in which they were measured."""
    names = ("machine_id", "variant_id", "suite", "environment_id", "commit_id", "started_at", "id")
    run = RunRow.__table__.c
    order: dict[str, Any] = {
        "partition_by": (run.machine_id, run.variant_id, run.suite),
        "order_by": (run.started_at, run.id),
    }
    placed = (
        _select_history(project_id, *(run[name] for name in names))
        .add_columns(
            sa.func.lag(run.environment_id).over(**order).label("environment_before"),
            sa.func.lag(run.commit_id).over(**order).label("commit_before"),
        )
        .subquery()
    )
    rows = tx.execute(
        sa.select(placed)
        .where(placed.c.environment_before != placed.c.environment_id)
        .order_by(placed.c.started_at.desc(), placed.c.id.desc())
        .limit(limit)
    ).all()
    machines = load_machines_by_id(tx)
    environments = load_environments_by_id(
        tx, {row_id for row in rows for row_id in (row.environment_id, row.environment_before)}
    )
    commits = load_commits_by_id(
        tx, ids={row_id for row in rows for row_id in (row.commit_id, row.commit_before)}
    )
    return [
        EnvironmentSwitch(
            machines[row.machine_id],
            row.suite,
            row.variant_id,
            environments[row.environment_before],
            environments[row.environment_id],
            commits[row.commit_before],
            commits[row.commit_id],
            row.started_at,
        )
        for row in rows
    ]


def load_environment_records(tx: Session, project_id: int) -> list[EnvironmentRecord]:
    """Load one record for each machine with a run in the history, the one that ran last first."""
    run = RunRow.__table__.c
    place = sa.func.row_number().over(
        partition_by=run.machine_id, order_by=(run.started_at.desc(), run.id.desc())
    )
    window: dict[str, Any] = {"partition_by": run.machine_id}
    placed = (
        _select_history(project_id, run.machine_id, run.environment_id, run.started_at)
        .add_columns(
            place.label("place"),
            sa.func.count().over(**window).label("runs"),
            sa.func.min(run.started_at, type_=run.started_at.type).over(**window).label("first_run_at"),
        )
        .subquery()
    )
    rows = tx.execute(sa.select(placed).where(placed.c.place == 1).order_by(placed.c.started_at.desc())).all()
    machines = load_machines_by_id(tx)
    environments = load_environments_by_id(tx, {row.environment_id for row in rows})
    return [
        EnvironmentRecord(
            machines[row.machine_id],
            row.runs,
            row.first_run_at,
            row.started_at,
            environments[row.environment_id],
        )
        for row in rows
    ]


def _select_history(project_id: int, *columns: Any) -> sa.Select[Any]:
    return (
        sa.select(*columns)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(
            SessionRow.project_id == project_id,
            SessionRow.kind.in_(HISTORY_KINDS),
            RunRow.invalid.is_(False),
        )
    )
