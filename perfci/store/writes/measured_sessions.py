"""Write a session while it is measured: its runs, and each process in the moment it ends.

The caller owns the transaction ``tx``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from perfci.model import PerfciError, Process, ProcessBoundaries, Run, Series, Status
from perfci.store.column_conversions import process_to_columns, replace_unstorable_characters
from perfci.store.queries import runs_and_sessions
from perfci.store.queries.query_records import SessionRecord
from perfci.store.tables.measurements import ProcessRow, ProjectRow, ResultRow, RunRow, SessionRow
from perfci.store.transactions import IDS, IdCache
from perfci.store.writes.find_or_add_rows import (
    ensure_project_id,
    ensure_series_id,
    ensure_series_ids,
    require_session_id,
)
from perfci.store.writes.ingest import (
    compute_local_run_key,
    count_os_processes,
    insert_results,
    insert_runs,
    recount_run_processes,
)
from perfci.store.writes.series_points import delete_series_points

RUNNING = "running"
FINISHED = "finished"


def start_session(
    tx: Session,
    project: str,
    uid: str,
    kind: str,
    spec_hash: str,
    seed: int,
    rounds: int,
    started_at: datetime,
) -> None:
    """Start a session under a new ``uid``."""
    if tx.scalar(sa.select(SessionRow.id).where(SessionRow.uid == uid)) is not None:
        raise PerfciError(f"The session {uid} exists already: every session needs a name of its own.")
    row = {
        "uid": uid,
        "project_id": ensure_project_id(tx, project),
        "kind": kind,
        "spec_hash": spec_hash,
        "seed": str(seed),
        "rounds": rounds,
        "state": RUNNING,
        "started_at": started_at,
    }
    tx.execute(sa.insert(SessionRow.__table__), row)


def find_unfinished_session(tx: Session, project: str, spec_hash: str) -> SessionRecord | None:
    """Find the newest interrupted session with the same plan, to resume it."""
    row = tx.execute(
        sa.select(*SessionRow.__table__.c)
        .join(ProjectRow, SessionRow.project_id == ProjectRow.id)
        .where(ProjectRow.slug == project, SessionRow.spec_hash == spec_hash, SessionRow.state == RUNNING)
        .order_by(SessionRow.started_at.desc(), SessionRow.id.desc())
        .limit(1)
    ).first()
    return None if row is None else runs_and_sessions.build_session_record(row, project)


def finish_session(tx: Session, uid: str, finished_at: datetime) -> None:
    """Mark a session as finished."""
    session_id = require_session_id(tx, uid)
    done = {"state": FINISHED, "finished_at": finished_at}
    tx.execute(sa.update(SessionRow.__table__).where(SessionRow.id == session_id).values(done))


def find_or_add_run(tx: Session, run: Run) -> int:
    """Store a run of a started session, or find it again to resume it; return its id."""
    ids: IdCache = tx.info[IDS]
    project_id, key = ensure_project_id(tx, run.project), compute_local_run_key(run)
    run_id = tx.scalar(sa.select(RunRow.id).where(RunRow.key == key))
    if run_id is None:
        session_ids = {run.session: require_session_id(tx, run.session)}
        run_id = insert_runs(tx, project_id, [(replace(run, results=()), key, "")], session_ids)[key]
    ids.added["project of run", run_id] = project_id
    if run.results:
        stored = set(tx.scalars(sa.select(ResultRow.series_id).where(ResultRow.run_id == run_id)))
        new = [
            result for result in run.results if ensure_series_id(tx, project_id, result.series) not in stored
        ]
        insert_results(tx, project_id, [(run_id, result) for result in new])
        recount_run_processes(tx, run_id)
    return run_id


def add_process_measurements(
    tx: Session, run_id: int, measured: Sequence[tuple[Series, Process]]
) -> list[int]:
    """Store the measurements of one finished OS process, one row per metric; return their ids in order."""
    if not measured:
        return []
    project_id = _load_run_project_id(tx, run_id)
    rows = []
    series_ids = ensure_series_ids(tx, project_id, [series for series, _ in measured])
    for series_id, (_, process) in zip(series_ids, measured, strict=True):
        result_id = _ensure_result_id(tx, run_id, series_id, process)
        rows.append({"result_id": result_id, **process_to_columns(process)})
    delete_series_points(tx, series_ids)  # a point that is stored already has one process more
    try:
        statement = sa.insert(ProcessRow.__table__).returning(ProcessRow.id, sort_by_parameter_order=True)
        added = list(tx.scalars(statement, rows))
    except IntegrityError as error:
        series, process = measured[0]
        raise PerfciError(
            f"This process is stored already: {series.cell}, role {process.role}, round {process.round}, "
            f"pair {process.pair}, index {process.index}."
        ) from error
    more = RunRow.processes + count_os_processes((series, [process]) for series, process in measured)
    tx.execute(sa.update(RunRow.__table__).where(RunRow.id == run_id).values(processes=more))
    return added


def _load_run_project_id(tx: Session, run_id: int) -> int:
    """Load the project id of a run; it is cached for the run being measured."""
    ids: IdCache = tx.info[IDS]
    project_id = ids.find(("project of run", run_id))
    if project_id is None:
        query = sa.select(SessionRow.project_id).join(RunRow, RunRow.session_id == SessionRow.id)
        project_id = tx.scalar(query.where(RunRow.id == run_id))
        if project_id is None:
            raise PerfciError(f"There is no run {run_id} to add measurements to.")
        ids.added["project of run", run_id] = project_id
    return project_id


def _ensure_result_id(tx: Session, run_id: int, series_id: int, process: Process) -> int:
    """Find or add the result of a process; it is ok once any process is ok, else it has the latest status."""
    ids: IdCache = tx.info[IDS]
    key = ("result", run_id, series_id)
    result_id = ids.find(key)
    if result_id is None:
        query = sa.select(ResultRow.id).where(ResultRow.run_id == run_id, ResultRow.series_id == series_id)
        result_id = tx.scalar(query)
    if result_id is None:
        row = {
            "run_id": run_id,
            "series_id": series_id,
            "status": process.status.value,
            "reason": replace_unstorable_characters(process.reason),
            "boundaries": ProcessBoundaries.PROCESS.value,
        }
        result_id = tx.execute(sa.insert(ResultRow.__table__).returning(ResultRow.id), row).scalar_one()
    elif not ids.find(("ok", result_id)):
        latest = {"status": process.status.value, "reason": replace_unstorable_characters(process.reason)}
        of_result = sa.and_(ResultRow.id == result_id, ResultRow.status != Status.OK.value)
        tx.execute(sa.update(ResultRow.__table__).where(of_result).values(latest))
    if process.status is Status.OK:
        ids.added["ok", result_id] = 1
    ids.added[key] = result_id
    return result_id
