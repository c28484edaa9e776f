"""Lists that the API pages through: each page starts at a row id and reads only its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit, Environment, Machine, Series
from perfci.store.column_conversions import named_values_from_json
from perfci.store.queries.history_conditions import (
    PULL_REQUEST_KIND,
    current_verdict_condition,
    series_only_in_pulls_condition,
)
from perfci.store.queries.query_records import VerdictRecord, build_verdict_record
from perfci.store.queries.series_commits_machines import (
    load_commits_by_id,
    load_machines_by_id,
    load_series_by_ids,
    sha_prefix_condition,
)
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    EnvironmentRow,
    MachineRow,
    RunRow,
    SeriesRow,
    SessionRow,
)
from perfci.store.tables.verdicts import VerdictRow


@dataclass(frozen=True, slots=True)
class RunFilter:
    """The filters of a list of runs; an empty one matches all."""

    commit: str = ""
    suite: str = ""
    session: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunListItem:
    """A run as lists show it."""

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
class SeriesListItem:
    """A series with its public id."""

    id: int
    identity: str
    series: Series


@dataclass(frozen=True, slots=True)
class VerdictFilter:
    """The filters of a list of verdicts; an empty one matches all."""

    base: str = ""
    head: str = ""
    kind: str = ""
    stage: str = ""
    series_id: int | None = None
    current_only: bool = True


def load_runs_page(
    tx: Session, project_id: int, filters: RunFilter, *, before: int, limit: int
) -> list[RunListItem]:
    """Load a page of runs, newest arrivals first, below the id ``before`` (0: from the start)."""
    narrowed = [
        *([sha_prefix_condition(CommitRow.sha, filters.commit)] if filters.commit else []),
        *([RunRow.suite == filters.suite] if filters.suite else []),
        *([SessionRow.uid == filters.session] if filters.session else []),
        *([RunRow.started_at >= filters.since] if filters.since else []),
        *([RunRow.started_at < filters.until] if filters.until else []),
        *([RunRow.id < before] if before else []),
    ]
    query = (
        sa.select(*RunRow.__table__.c, SessionRow.uid, SessionRow.kind, CommitRow.sha, CommitRow.dirty)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.project_id == project_id, *narrowed)
    )
    rows = tx.execute(query.order_by(RunRow.id.desc()).limit(limit)).all()
    machines = load_machines_by_id(tx)
    return [
        RunListItem(
            row.id,
            row.key,
            row.uid,
            row.kind,
            row.sha,
            row.dirty,
            machines[row.machine_id],
            row.suite,
            row.harness,
            row.started_at,
            row.finished_at,
        )
        for row in rows
    ]


def load_series_page(
    tx: Session, project_id: int, *, benchmark: str = "", metric: str = "", after: int, limit: int
) -> list[SeriesListItem]:
    """Load a page of series in the order they were first stored, without those of pull requests only."""
    narrowed = [
        ~series_only_in_pulls_condition(),
        *([BenchmarkRow.name == benchmark] if benchmark else []),
        *([SeriesRow.metric == metric] if metric else []),
    ]
    return _load_series_items(tx, project_id, SeriesRow.id > after, *narrowed, limit=limit)


def find_series_by_identity(tx: Session, project_id: int, identity: str) -> SeriesListItem | None:
    """Find a series of a project by its public id."""
    return next(iter(_load_series_items(tx, project_id, SeriesRow.identity == identity, limit=1)), None)


def load_commits_page(
    tx: Session, project_id: int, *, branch: str = "", before: int, limit: int
) -> list[tuple[int, Commit]]:
    """Load a page of commits, newest arrivals first."""
    query = sa.select(CommitRow.id).where(CommitRow.project_id == project_id)
    query = query.where(CommitRow.id < before) if before else query
    query = query.where(CommitRow.branch == branch) if branch else query
    ids = tx.scalars(query.order_by(CommitRow.id.desc()).limit(limit)).all()
    commits = load_commits_by_id(tx, ids=ids)
    return [(row_id, commits[row_id]) for row_id in ids]


def load_machines_page(
    tx: Session, project_id: int, *, after: int, limit: int
) -> list[tuple[int, str, Machine]]:
    """Load a page of the machine classes used in a project."""
    rows = _list_used_rows(tx, project_id, MachineRow.__table__, RunRow.machine_id, after, limit)
    machines = load_machines_by_id(tx)
    return [(row.id, row.identity, machines[row.id]) for row in rows]


def load_environments_page(
    tx: Session, project_id: int, *, after: int, limit: int
) -> list[tuple[int, str, Environment]]:
    """Load a page of the environments observed in a project."""
    rows = _list_used_rows(tx, project_id, EnvironmentRow.__table__, RunRow.environment_id, after, limit)
    return [(row.id, row.identity, Environment(named_values_from_json(row.observed))) for row in rows]


def load_verdicts_page(
    tx: Session, project_id: int, filters: VerdictFilter, *, before: int, limit: int
) -> list[VerdictRecord]:
    """Load a page of verdicts, newest first."""
    narrowed = [
        *([sha_prefix_condition(VerdictRow.base, filters.base)] if filters.base else []),
        *([sha_prefix_condition(VerdictRow.head, filters.head)] if filters.head else []),
        *([VerdictRow.kind == filters.kind] if filters.kind else []),
        *([VerdictRow.stage == filters.stage] if filters.stage else []),
        *([VerdictRow.series_id == filters.series_id] if filters.series_id is not None else []),
        *([current_verdict_condition()] if filters.current_only else []),
        *([VerdictRow.id < before] if before else []),
    ]
    return _load_verdicts(tx, VerdictRow.project_id == project_id, *narrowed, limit=limit)


def find_verdict(tx: Session, project_id: int, verdict_id: int) -> VerdictRecord | None:
    """Find a verdict of a project by its id."""
    conditions = (VerdictRow.project_id == project_id, VerdictRow.id == verdict_id)
    return next(iter(_load_verdicts(tx, *conditions, limit=1)), None)


def _load_series_items(
    tx: Session, project_id: int, *conditions: sa.ColumnElement[bool], limit: int | None
) -> list[SeriesListItem]:
    query = (
        sa.select(SeriesRow.id, SeriesRow.identity)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(BenchmarkRow.project_id == project_id, SeriesRow.renamed_to.is_(None), *conditions)
        .order_by(SeriesRow.id)
        .limit(limit)
    )
    identity_of = dict(tx.execute(query).all())
    series_by_id = load_series_by_ids(tx, identity_of)
    return [
        SeriesListItem(row_id, identity, series_by_id[row_id]) for row_id, identity in identity_of.items()
    ]


def _list_used_rows(
    tx: Session, project_id: int, used_table: sa.Table, reference: Any, after: int, limit: int
) -> Sequence[Any]:
    """List the rows that some run of a project refers to that is of no pull request."""
    used = (
        sa.select(RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.project_id == project_id, reference == used_table.c.id)
        .where(SessionRow.kind != PULL_REQUEST_KIND)
        .exists()
    )
    return tx.execute(
        sa.select(used_table).where(used_table.c.id > after, used).order_by(used_table.c.id).limit(limit)
    ).all()


def _load_verdicts(tx: Session, *conditions: sa.ColumnElement[bool], limit: int) -> list[VerdictRecord]:
    query = (
        sa.select(*VerdictRow.__table__.c, SessionRow.uid.label("session_uid"))
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .where(*conditions)
        .order_by(VerdictRow.id.desc())
        .limit(limit)
    )
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [build_verdict_record(row, series[row.series_id]) for row in rows]
