"""Lists as the API pages through them: a row number where to go on, and never more rows than were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit, Environment, Machine, Series
from perfci.store import conversions
from perfci.store.queries.loaders import load_machines, series_by_ids
from perfci.store.queries.records import MeasuredProcess, VerdictRecord
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    EnvironmentRow,
    MachineRow,
    ProcessRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
    VerdictRow,
)
from perfci.store.writes.row_ids import sha_begins, table


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What a list of runs is narrowed to; empty says nothing."""

    commit: str = ""
    suite: str = ""
    session: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunLine:
    id: int
    key: str
    session: str
    kind: str
    sha: str
    dirty: bool
    machine: Machine
    suite: str
    harness: str
    started_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class SeriesLine:
    """A series under the name that the API calls it by."""

    id: int
    identity: str
    series: Series


@dataclass(frozen=True, slots=True)
class VerdictFilter:
    base: str = ""
    head: str = ""
    kind: str = ""
    stage: str = ""
    series_id: int | None = None
    current_only: bool = True


def runs_page(tx: Session, project_id: int, asked: RunFilter, *, before: int, limit: int) -> list[RunLine]:
    """The runs of a project, those that arrived last first, below the row ``before`` (0: from the start)."""
    narrowed = [
        *([sha_begins(CommitRow.sha, asked.commit)] if asked.commit else []),
        *([RunRow.suite == asked.suite] if asked.suite else []),
        *([SessionRow.uid == asked.session] if asked.session else []),
        *([RunRow.started_at >= asked.since] if asked.since else []),
        *([RunRow.started_at < asked.until] if asked.until else []),
        *([RunRow.id < before] if before else []),
    ]
    query = (
        sa.select(*table(RunRow).c, SessionRow.uid, SessionRow.kind, CommitRow.sha, CommitRow.dirty)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.project_id == project_id, *narrowed)
    )
    rows = tx.execute(query.order_by(RunRow.id.desc()).limit(limit)).all()
    machines = load_machines(tx)
    return [
        RunLine(
            row.id, row.key, row.uid, row.kind, row.sha, row.dirty, machines[row.machine_id], row.suite, row.harness,
            row.started_at, row.finished_at,
        )
        for row in rows
    ]  # fmt: skip


def run_id_of(tx: Session, project_id: int, key: str) -> int | None:
    """The run of a project with this key."""
    query = sa.select(RunRow.id).join(SessionRow, RunRow.session_id == SessionRow.id)
    return tx.scalar(query.where(SessionRow.project_id == project_id, RunRow.key == key))


def series_page(
    tx: Session, project_id: int, *, benchmark: str = "", metric: str = "", after: int, limit: int
) -> list[SeriesLine]:
    """The series of a project in the order they were first seen."""
    narrowed = [
        *([BenchmarkRow.name == benchmark] if benchmark else []),
        *([SeriesRow.metric == metric] if metric else []),
    ]
    return _series_lines(tx, project_id, SeriesRow.id > after, *narrowed, limit=limit)


def series_of_identity(tx: Session, project_id: int, identity: str) -> SeriesLine | None:
    return next(iter(_series_lines(tx, project_id, SeriesRow.identity == identity, limit=1)), None)


def commits_page(
    tx: Session, project_id: int, *, branch: str = "", before: int, limit: int
) -> list[tuple[int, Commit]]:
    """The commits of a project, those that were seen last first."""
    query = sa.select(*table(CommitRow).c).where(CommitRow.project_id == project_id)
    query = query.where(CommitRow.id < before) if before else query
    query = query.where(CommitRow.branch == branch) if branch else query
    rows = tx.execute(query.order_by(CommitRow.id.desc()).limit(limit))
    return [(row.id, conversions.commit_of(row)) for row in rows]


def machines_page(tx: Session, project_id: int, *, after: int, limit: int) -> list[tuple[int, str, Machine]]:
    """The machine classes that measured for a project."""
    rows = _met(tx, project_id, table(MachineRow), RunRow.machine_id, after, limit)
    return [(row.id, row.identity, conversions.machine_of(row)) for row in rows]


def environments_page(tx: Session, project_id: int, *, after: int, limit: int) -> list[tuple[int, str, Environment]]:
    """The environments that were observed in a project."""
    rows = _met(tx, project_id, table(EnvironmentRow), RunRow.environment_id, after, limit)
    return [(row.id, row.identity, Environment(conversions.pairs(row.observed))) for row in rows]


def verdicts_page(
    tx: Session, project_id: int, asked: VerdictFilter, *, before: int, limit: int
) -> list[VerdictRecord]:
    """What was decided in a project, newest first."""
    narrowed = [
        *([sha_begins(VerdictRow.base, asked.base)] if asked.base else []),
        *([sha_begins(VerdictRow.head, asked.head)] if asked.head else []),
        *([VerdictRow.kind == asked.kind] if asked.kind else []),
        *([VerdictRow.stage == asked.stage] if asked.stage else []),
        *([VerdictRow.series_id == asked.series_id] if asked.series_id is not None else []),
        *([VerdictRow.superseded_by.is_(None)] if asked.current_only else []),
        *([VerdictRow.id < before] if before else []),
    ]
    return _verdicts(tx, VerdictRow.project_id == project_id, *narrowed, limit=limit)


def verdict_of_id(tx: Session, project_id: int, verdict_id: int) -> VerdictRecord | None:
    asked = (VerdictRow.project_id == project_id, VerdictRow.id == verdict_id)
    return next(iter(_verdicts(tx, *asked, limit=1)), None)


def processes_of(tx: Session, ids: Sequence[int], series: Series) -> list[MeasuredProcess]:
    """The processes a verdict names as its evidence, in the order they were stored."""
    query = (
        sa.select(*table(ProcessRow).c, CommitRow.sha)
        .join(ResultRow, ProcessRow.result_id == ResultRow.id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(ProcessRow.id.in_(ids))
        .order_by(ProcessRow.id)
    )
    return [MeasuredProcess(row.id, row.sha, series, conversions.process_of(row)) for row in tx.execute(query)]


def _series_lines(
    tx: Session, project_id: int, *narrowed: sa.ColumnElement[bool], limit: int | None
) -> list[SeriesLine]:
    query = (
        sa.select(SeriesRow.id, SeriesRow.identity)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(BenchmarkRow.project_id == project_id, *narrowed)
        .order_by(SeriesRow.id)
        .limit(limit)
    )
    identity_of = dict(tx.execute(query).all())
    found = series_by_ids(tx, identity_of)
    return [SeriesLine(row_id, identity, found[row_id]) for row_id, identity in identity_of.items()]


def _met(tx: Session, project_id: int, of: sa.Table, reference: Any, after: int, limit: int) -> Sequence[Any]:
    """Rows that some run of a project refers to."""
    used = (
        sa.select(RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.project_id == project_id, reference == of.c.id)
        .exists()
    )
    return tx.execute(sa.select(of).where(of.c.id > after, used).order_by(of.c.id).limit(limit)).all()


def _verdicts(tx: Session, *asked: sa.ColumnElement[bool], limit: int) -> list[VerdictRecord]:
    query = (
        sa.select(*table(VerdictRow).c, SessionRow.uid)
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .where(*asked)
        .order_by(VerdictRow.id.desc())
        .limit(limit)
    )
    rows = tx.execute(query).all()
    series = series_by_ids(tx, {row.series_id for row in rows})
    return [
        VerdictRecord(
            row.id, conversions.verdict_of(row, series[row.series_id]), row.uid, row.created_at, row.superseded_by
        )
        for row in rows
    ]
