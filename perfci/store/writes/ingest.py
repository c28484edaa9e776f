"""Write sessions, runs, processes and results. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from perfci.model import (
    Benchmark,
    Commit,
    PerfciError,
    Process,
    ProcessBoundaries,
    Run,
    Series,
    Status,
)
from perfci.store import conversions as values
from perfci.store.conversions import identity, machine_identity
from perfci.store.dialects import execute_sql, placeholders
from perfci.store.id_cache import get_id_cache
from perfci.store.queries import measurements
from perfci.store.queries.records import SessionRecord
from perfci.store.tables.base import core_table
from perfci.store.tables.measurements import (
    BenchmarkRow,
    ProcessRow,
    ProjectRow,
    ResultRow,
    RunRow,
    SessionRow,
)
from perfci.store.writes import row_ids
from perfci.store.writes.bulk_insert import (
    KeyedRun,
    ProcessSummarizer,
    count_os_processes,
    insert_results,
    insert_runs,
    update_process_count,
)

RUNNING = "running"
FINISHED = "finished"

BATCH_SIZE = 64
"""Runs that are stored together: enough to share statements, few enough to keep a large import small in
memory.
"""


@dataclass(frozen=True, slots=True)
class IngestCounts:
    """What an ingest added: ``values`` counts results with a value, ``samples`` their samples."""

    runs_new: int = 0
    runs_known: int = 0
    values: int = 0
    samples: int = 0

    def __add__(self, other: IngestCounts) -> IngestCounts:
        return IngestCounts(
            self.runs_new + other.runs_new,
            self.runs_known + other.runs_known,
            self.values + other.values,
            self.samples + other.samples,
        )


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
        "project_id": row_ids.ensure_project_id(tx, project),
        "kind": kind,
        "spec_hash": spec_hash,
        "seed": str(seed),
        "rounds": rounds,
        "state": RUNNING,
        "started_at": started_at,
    }
    tx.execute(sa.insert(core_table(SessionRow)), row)


def find_unfinished_session(tx: Session, project: str, spec_hash: str) -> SessionRecord | None:
    """Find the newest interrupted session with the same plan, to resume it."""
    row = tx.execute(
        sa.select(*core_table(SessionRow).c)
        .join(ProjectRow, SessionRow.project_id == ProjectRow.id)
        .where(ProjectRow.slug == project, SessionRow.spec_hash == spec_hash, SessionRow.state == RUNNING)
        .order_by(SessionRow.started_at.desc(), SessionRow.id.desc())
        .limit(1)
    ).first()
    return None if row is None else measurements.build_session_record(row, project)


def finish_session(tx: Session, uid: str, finished_at: datetime) -> None:
    """Mark a session as finished."""
    session_id = row_ids.require_session_id(tx, uid)
    done = {"state": FINISHED, "finished_at": finished_at}
    tx.execute(sa.update(core_table(SessionRow)).where(SessionRow.id == session_id).values(done))


def add_run(tx: Session, run: Run) -> int:
    """Store a run of a started session, or find it again to resume it; return its id."""
    project_id, key = row_ids.ensure_project_id(tx, run.project), _local_key(run)
    run_id = tx.scalar(sa.select(RunRow.id).where(RunRow.key == key))
    if run_id is None:
        run_id = insert_runs(tx, project_id, [(replace(run, results=()), key, "")])[key]
    get_id_cache(tx).add(("project of run", run_id), project_id)
    if run.results:
        stored = set(tx.scalars(sa.select(ResultRow.series_id).where(ResultRow.run_id == run_id)))
        new = [
            result
            for result in run.results
            if row_ids.ensure_series_id(tx, project_id, result.series) not in stored
        ]
        insert_results(tx, project_id, [(run_id, result) for result in new])
        update_process_count(tx, run_id)
    return run_id


def add_processes(tx: Session, run_id: int, measured: Sequence[tuple[Series, Process]]) -> list[int]:
    """Store the measurements of one finished OS process, one row per metric; return their ids in order."""
    if not measured:
        return []
    project_id = row_ids.load_run_project_id(tx, run_id)
    rows = []
    for series, process in measured:
        result_id = _ensure_result_id(tx, run_id, row_ids.ensure_series_id(tx, project_id, series), process)
        rows.append({"result_id": result_id, **values.process_columns(process)})
    try:
        statement = sa.insert(core_table(ProcessRow)).returning(ProcessRow.id, sort_by_parameter_order=True)
        added = list(tx.scalars(statement, rows))
    except IntegrityError as error:
        series, process = measured[0]
        raise PerfciError(
            f"This process is stored already: {series.cell}, role {process.role}, round {process.round}, "
            f"pair {process.pair}, index {process.index}."
        ) from error
    more = RunRow.processes + count_os_processes((series, [process]) for series, process in measured)
    tx.execute(sa.update(core_table(RunRow)).where(RunRow.id == run_id).values(processes=more))
    return added


def ingest_batch(
    tx: Session,
    runs: Sequence[KeyedRun],
    *,
    kind: str,
    received_at: datetime | None = None,
    summarize: ProcessSummarizer | None = None,
) -> set[str]:
    """Store whole runs of one project; return the keys of those that are new."""
    stored = (
        _store_batch(tx, batch, kind, "refuse", received_at, summarize) for batch in _split_batches(runs)
    )
    return {key for new in stored for _, key, _ in new}


def ingest_runs(
    tx: Session,
    runs: Iterable[KeyedRun],
    *,
    kind: str = "import",
    on_changed: Literal["refuse", "add"] = "refuse",
    summarize: ProcessSummarizer | None = None,
) -> IngestCounts:
    """Store a stream of runs in batches.

    ``summarize`` computes the summary of each result while its samples are at hand; without it that is done
    when the result is judged. ``on_changed`` says what a stored key with another body means: an error
    ("refuse"), or a run that has grown (asv rewrites its files as it measures more), of which only the
    results that differ are added ("add").
    """
    total = IngestCounts()
    for batch in _split_batches(runs):
        new = _store_batch(tx, batch, kind, on_changed, None, summarize)
        total += _count_ingested([run for run, _, _ in new], runs_known=len(batch) - len(new))
    return total


def describe_benchmarks(
    tx: Session, project: str, descriptions: Mapping[Benchmark, tuple[str, Mapping[str, Any]]]
) -> None:
    """Store the source code and settings of benchmark versions that have none yet."""
    project_id = row_ids.ensure_project_id(tx, project)
    for benchmark, (code, meta) in descriptions.items():
        row_id = row_ids.ensure_benchmark_id(tx, project_id, benchmark)
        undescribed = sa.and_(BenchmarkRow.id == row_id, BenchmarkRow.code.is_(None))
        tx.execute(sa.update(core_table(BenchmarkRow)).where(undescribed).values(code=code, meta=dict(meta)))


def upsert_commits(tx: Session, project: str, commits: Sequence[Commit]) -> None:
    """Store commits, or complete the stored ones."""
    row_ids.ensure_commit_ids(tx, row_ids.ensure_project_id(tx, project), commits)


def _ensure_result_id(tx: Session, run_id: int, series_id: int, process: Process) -> int:
    """Find or add the result of a process; it is ok once any process is ok, else it has the latest status."""
    key = ("result", run_id, series_id)
    result_id = get_id_cache(tx).find(key)
    if result_id is None:
        query = sa.select(ResultRow.id).where(ResultRow.run_id == run_id, ResultRow.series_id == series_id)
        result_id = tx.scalar(query)
    if result_id is None:
        row = {
            "run_id": run_id,
            "series_id": series_id,
            "status": process.status.value,
            "reason": values.replace_unstorable(process.reason),
            "boundaries": ProcessBoundaries.PROCESS.value,
        }
        result_id = tx.execute(sa.insert(core_table(ResultRow)).returning(ResultRow.id), row).scalar_one()
    elif not get_id_cache(tx).find(("ok", result_id)):
        latest = {"status": process.status.value, "reason": values.replace_unstorable(process.reason)}
        of_result = sa.and_(ResultRow.id == result_id, ResultRow.status != Status.OK.value)
        tx.execute(sa.update(core_table(ResultRow)).where(of_result).values(latest))
    if process.status is Status.OK:
        get_id_cache(tx).add(("ok", result_id), 1)
    return get_id_cache(tx).add(key, result_id)


def _split_batches(runs: Iterable[KeyedRun]) -> Iterator[list[KeyedRun]]:
    """Split runs into batches of one project without duplicate keys."""
    batch: list[KeyedRun] = []
    for run, key, body_hash in runs:
        same_project = not batch or batch[0][0].project == run.project
        if len(batch) == BATCH_SIZE or not same_project or any(key == other for _, other, _ in batch):
            yield batch
            batch = []
        batch.append((run, key, body_hash))
    if batch:
        yield batch


def _store_batch(
    tx: Session,
    batch: Sequence[KeyedRun],
    kind: str,
    on_changed: str,
    received_at: datetime | None,
    summarize: ProcessSummarizer | None,
) -> Sequence[KeyedRun]:
    """Store the new runs of a batch and return them."""
    project_id = row_ids.ensure_project_id(tx, batch[0][0].project)
    new = list(_select_new_runs(tx, batch, on_changed))
    row_ids.add_imported_sessions(tx, project_id, [run for run, _, _ in new], kind)
    run_ids = insert_runs(tx, project_id, new, received_at)
    insert_results(
        tx, project_id, [(run_ids[key], result) for run, key, _ in new for result in run.results], summarize
    )
    return new


def _count_ingested(new: Sequence[Run], runs_known: int) -> IngestCounts:
    results = [result for run in new for result in run.results]
    return IngestCounts(
        runs_new=len(new),
        runs_known=runs_known,
        values=sum(result.status is Status.OK for result in results),
        samples=sum(len(process.samples) for result in results for process in result.processes),
    )


def _select_new_runs(tx: Session, batch: Sequence[KeyedRun], on_changed: str) -> Iterator[KeyedRun]:
    """Yield the runs of a batch that are not stored yet; a run that has grown keeps only its new results."""
    stored_hashes = _load_body_hashes(
        tx, [key for run, key, _ in batch] + [_local_key(run) for run, _, _ in batch]
    )
    for run, key, body_hash in batch:
        if stored_hashes.get(key) == body_hash or _local_key(run) in stored_hashes:
            continue
        if key not in stored_hashes:
            yield run, key, body_hash
        elif on_changed == "refuse":
            raise PerfciError(
                f"The run of commit {run.commit.short_sha} in session {run.session} is stored already "
                "with other content: a run is never replaced, so measure it again in a new session."
            )
        elif not _load_body_hashes(tx, [grown := identity(key, body_hash)]):
            yield _drop_stored_results(tx, run), grown, body_hash


def _load_body_hashes(tx: Session, keys: Sequence[str]) -> dict[str, str]:
    return dict(
        execute_sql(
            tx, f"SELECT key, body_hash FROM runs WHERE key IN ({placeholders(len(keys))})", keys
        ).fetchall()
    )


def _drop_stored_results(tx: Session, run: Run) -> Run:
    """Drop the results that are stored already, equal in every field."""
    stored = set(measurements.load_results_like(tx, run))
    return replace(run, results=tuple(result for result in run.results if result not in stored))


def _local_key(run: Run) -> str:
    """Compute the key of a run measured here: a session measures a commit on a machine and environment
    once.
    """
    return identity(
        "local",
        [run.session, run.commit.sha, run.commit.dirty, machine_identity(run.machine)],
        [run.environment.values, run.variant.values, run.suite, run.harness],
    )
