"""Check a database for rows that cannot be right."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from perfci.model import Status
from perfci.store.column_conversions import series_identity, unpack_samples
from perfci.store.maintenance import job_incident_access_checks
from perfci.store.maintenance.partition_processes import is_partitioned, list_partitions
from perfci.store.open_database import open_store
from perfci.store.queries import (
    history_conditions,
    series_commits_machines,
)
from perfci.store.tables.measurements import (
    BenchmarkRow,
    CommitRow,
    ProcessRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
)
from perfci.store.tables.verdicts import VerdictRow


def check_integrity(url: str) -> list[str]:
    """Check what must hold in every database; return one sentence for each violation."""
    with contextlib.closing(open_store(url, create=False)) as store, store.read() as tx:
        rows = (
            _check_sqlite_file,
            _check_samples,
            _check_results,
            _check_run_projects,
            _check_series_identities,
            _check_current_verdicts,
            _check_triggers,
        )
        return [
            problem
            for find_problems in (*rows, *job_incident_access_checks.CHECKS)
            for problem in find_problems(tx)
        ]


def _check_sqlite_file(tx: Session) -> Iterator[str]:
    if tx.get_bind().dialect.name != "sqlite":
        return
    messages = tx.execute(sa.text("PRAGMA integrity_check")).scalars().all()
    yield from (f"The file is damaged: {message}." for message in messages if message != "ok")
    for child, row_id, parent, _ in tx.execute(sa.text("PRAGMA foreign_key_check")):
        yield f"Row {row_id} of {child} points to a row of {parent} that does not exist."


def _check_samples(tx: Session) -> Iterator[str]:
    query = sa.select(ProcessRow.id, ProcessRow.status, ProcessRow.samples).execution_options(yield_per=1000)
    for row_id, status, blob in tx.execute(query):
        if len(blob) % 8 or not all(map(math.isfinite, unpack_samples(blob))):
            yield f"Process {row_id} holds samples that are no finite numbers."
        elif status == Status.OK and not blob:
            yield f"Process {row_id} ended ok but has no samples."


def _check_results(tx: Session) -> Iterator[str]:
    measured = sa.select(ProcessRow.result_id).where(ProcessRow.status == Status.OK.value)
    ok = sa.select(ResultRow.id).where(ResultRow.status == Status.OK.value, ResultRow.value.is_(None))
    for row_id in tx.scalars(ok.where(ResultRow.id.not_in(measured), _should_have_processes(tx))):
        yield f"Result {row_id} is ok but has neither a process that ended ok nor a summary."
    failed = sa.select(ResultRow.id).where(ResultRow.status != Status.OK.value, ResultRow.id.in_(measured))
    for row_id in tx.scalars(failed):
        yield f"Result {row_id} is not ok although one of its processes ended ok."


def _should_have_processes(tx: Session) -> sa.ColumnElement[bool]:
    """Whether a result has no level, or its partition of processes was not dropped."""
    if not is_partitioned(tx):
        return sa.true()
    oldest = min(partition.first for partition in list_partitions(tx))
    return sa.or_(ResultRow.level.is_(None), ResultRow.id >= oldest)


def _check_run_projects(tx: Session) -> Iterator[str]:
    projects = (
        sa.select(RunRow.id)
        .distinct()
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .outerjoin(ResultRow, ResultRow.run_id == RunRow.id)
        .outerjoin(SeriesRow, ResultRow.series_id == SeriesRow.id)
        .outerjoin(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(
            sa.or_(
                CommitRow.project_id != SessionRow.project_id,
                BenchmarkRow.project_id != SessionRow.project_id,
            )
        )
    )
    for row_id in tx.scalars(projects):
        yield f"Run {row_id} mixes a session, a commit or a series of different projects."


def _check_series_identities(tx: Session) -> Iterator[str]:
    for row_id, stored, project, series in series_commits_machines.load_series_identities(tx):
        if stored != series_identity(project, series):
            yield f"Series {row_id} ({series.label}) does not match its identity."


def _check_current_verdicts(tx: Session) -> Iterator[str]:
    question = (VerdictRow.series_id, VerdictRow.base, VerdictRow.head)
    current = sa.select(*question).where(VerdictRow.superseded_by.is_(None)).group_by(*question)
    for series_id, base, head in tx.execute(current.having(sa.func.count() > 1)):
        yield f"Series {series_id} has several current verdicts between {base[:10]} and {head[:10]}."
    later = aliased(VerdictRow)
    wrong = (
        sa.select(VerdictRow.id)
        .join(later, VerdictRow.superseded_by == later.id)
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .where(later.id <= VerdictRow.id, SessionRow.kind != history_conditions.PULL_REQUEST_KIND)
    )
    for row_id in tx.scalars(wrong):
        yield f"Verdict {row_id} is superseded by an older one."


GUARD_TRIGGERS = {
    "verdicts_are_kept": "verdicts that were given",
    "verdicts_are_not_edited": "verdicts that were given",
    "verdicts_are_superseded_once": "verdicts that were given",
    "sessions_keep_their_kind": "verdicts that were given",
    "audit_is_kept": "lines of the audit log",
    "audit_is_not_edited": "lines of the audit log",
}
"""Triggers that refuse to delete or edit verdicts and the audit log, and what each one guards."""


def _check_triggers(tx: Session) -> Iterator[str]:
    on_sqlite = tx.get_bind().dialect.name == "sqlite"
    names = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if on_sqlite
        else "SELECT tgname FROM pg_trigger"
    )
    for gone in sorted(GUARD_TRIGGERS.keys() - set(tx.scalars(sa.text(names)))):
        yield f"The trigger {gone} is gone, so {GUARD_TRIGGERS[gone]} could be deleted or edited unseen."
