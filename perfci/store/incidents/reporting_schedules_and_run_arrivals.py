"""Store how often each suite reports from each machine, when its runs arrive and what they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Machine, Status
from perfci.store.queries.series_commits_machines import load_machines_by_id
from perfci.store.tables.incidents import ReportingScheduleRow
from perfci.store.tables.measurements import CommitRow, ResultRow, RunRow, SessionRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows, in_chunks

COLUMNS = ReportingScheduleRow.__table__.c

LEARNED = "learned"

MAX_RUNS = 200
"""Runs of a source that are considered: the last ten reports, of twenty commits each."""


class ReportSource(NamedTuple):
    """The source of reports: a suite on a machine for a branch."""

    suite: str
    machine_id: int
    branch: str


class RunArrival(NamedTuple):
    """The arrival of one run."""

    run_id: int
    arrived_at: datetime


@dataclass(frozen=True, slots=True)
class ReportingSchedule:
    """How often a source reports; ``every_s`` is None until learned, ``series`` counts the last report."""

    id: int
    source: ReportSource
    machine: Machine
    every_s: float | None
    set_by: str
    series: int
    last_run_at: datetime | None
    muted: bool


def load_run_arrivals(tx: Session, project_id: int) -> dict[ReportSource, list[RunArrival]]:
    """Load the last runs of each source, oldest first, by arrival time (else by measuring time).

    Imported files and runs of pull requests follow no schedule and are left out.
    """
    at = sa.func.coalesce(RunRow.received_at, RunRow.started_at)
    source = (RunRow.suite, RunRow.machine_id, CommitRow.branch)
    place = sa.func.row_number().over(partition_by=source, order_by=(at.desc(), RunRow.id.desc()))
    reported = sa.or_(
        SessionRow.kind == "history", sa.and_(SessionRow.kind == "import", RunRow.received_at.is_not(None))
    )
    placed = (
        sa.select(RunRow.id, *source, at.label("at"), place.label("place"))
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.project_id == project_id, CommitRow.dirty.is_(False), reported)
        .subquery()
    )
    arrivals: dict[ReportSource, list[RunArrival]] = defaultdict(list)
    for row in tx.execute(
        sa.select(placed).where(placed.c.place <= MAX_RUNS).order_by(placed.c.at, placed.c.id)
    ):
        arrivals[ReportSource(row.suite, row.machine_id, row.branch)].append(RunArrival(row.id, row.at))
    return arrivals


def load_reporting_schedules(tx: Session, project_id: int) -> list[ReportingSchedule]:
    """Load the reporting schedules of a project, in a fixed order."""
    machines = load_machines_by_id(tx)
    rows = tx.execute(sa.select(*COLUMNS).where(COLUMNS.project_id == project_id).order_by(COLUMNS.id))
    return [
        ReportingSchedule(
            id=row.id,
            source=ReportSource(row.suite, row.machine_id, row.branch),
            machine=machines[row.machine_id],
            every_s=row.every_s,
            set_by=row.set_by,
            series=row.series,
            last_run_at=row.last_run_at,
            muted=row.muted,
        )
        for row in rows
    ]


def save_learned_schedule(
    tx: Session,
    project_id: int,
    source: ReportSource,
    every_s: float | None,
    series: int | None,
    last_run_at: datetime,
) -> None:
    """Store a learned schedule; an interval that a person set stays."""
    key = {"project_id": project_id, **source._asdict()}
    tx.execute(
        build_insert_or_ignore(tx, ReportingScheduleRow),
        [{**key, "series": 0, "set_by": LEARNED, "muted": False}],
    )
    its = sa.and_(*(COLUMNS[name] == value for name, value in key.items()))
    seen: dict[str, Any] = {"last_run_at": last_run_at} | ({} if series is None else {"series": series})
    tx.execute(sa.update(ReportingScheduleRow.__table__).where(its).values(**seen))
    tx.execute(
        sa.update(ReportingScheduleRow.__table__)
        .where(its, COLUMNS.set_by == LEARNED)
        .values(every_s=every_s)
    )


def set_reporting_schedule(
    tx: Session, project_id: int, row_id: int, *, every_s: float | None, muted: bool, actor: str
) -> bool:
    """Set the interval of a source by hand; None for ``every_s`` lets it be learned again."""
    values = {"every_s": every_s, "muted": muted, "set_by": LEARNED if every_s is None else actor}
    its = sa.and_(COLUMNS.project_id == project_id, COLUMNS.id == row_id)
    statement = sa.update(ReportingScheduleRow.__table__).where(its).values(**values)
    return bool(execute_and_count_rows(tx, statement))


def load_overall_latest_report_time(tx: Session) -> datetime | None:
    """Return the time of the latest report of any project: a lower bound of the current time."""
    latest: datetime | None = tx.scalar(sa.select(sa.func.max(COLUMNS.last_run_at)))
    return latest


def load_series_statuses_of_runs(tx: Session, run_ids: Collection[int]) -> Mapping[int, dict[int, Status]]:
    """Load the series of runs, by run, and the status of each."""
    statuses: dict[int, dict[int, Status]] = defaultdict(dict)
    for some in in_chunks(run_ids):
        query = sa.select(ResultRow.run_id, ResultRow.series_id, ResultRow.status).where(
            ResultRow.run_id.in_(some)
        )
        for row in tx.execute(query):
            statuses[row.run_id][row.series_id] = Status(row.status)
    return statuses
