"""Store whole runs fast: rows as plain tuples, in as few statements as possible.

Binding by SQLAlchemy costs three times what SQLite needs for the rows themselves, and PostgreSQL takes
rows by COPY fifteen times as fast as one by one. The caller owns the transaction ``tx``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Benchmark,
    PerfciError,
    Process,
    Result,
    ResultSummary,
    Run,
    Series,
    Status,
)
from perfci.store.column_conversions import (
    ABSENT,
    EPOCH,
    MILLISECOND,
    as_json,
    hash_values,
    machine_identity,
    pack_samples,
    replace_unstorable_characters,
)
from perfci.store.queries import measured_samples
from perfci.store.queries.runs_and_sessions import find_project_run_id
from perfci.store.tables.measurements import (
    BenchmarkRow,
    ProcessRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
)
from perfci.store.transactions import bulk_insert, execute_on_driver, insert_rows, reserve_ids
from perfci.store.writes.find_or_add_rows import (
    ensure_benchmark_id,
    ensure_commit_ids,
    ensure_imported_sessions,
    ensure_measurement_context_id,
    ensure_project_id,
    ensure_series_ids,
)
from perfci.store.writes.invalid_marks import set_result_mark, set_run_mark
from perfci.store.writes.rename_series import find_rename_target_ids, update_machine_of_runs
from perfci.store.writes.variant_comparisons import save_carried_comparisons

RUNS, RESULTS, PROCESSES = RunRow.__table__, ResultRow.__table__, ProcessRow.__table__

RESULT_COLUMNS = (
    "id",
    "run_id",
    "series_id",
    "status",
    "reason",
    "boundaries",
    "number",
    "value",
    "ci_lo",
    "ci_hi",
    "q25",
    "q75",
    "n",
    "level",
    "clock",
    "spread",
)

PROCESS_COLUMNS = (
    "result_id",
    "index",
    "role",
    "status",
    "clock",
    "pair",
    "round",
    "order",
    "started_at",
    "duration_s",
    "reason",
    "exit_code",
    "stderr_tail",
    "flags",
    "samples",
)

NO_FLAGS = as_json(())

BATCH_SIZE = 64
"""Runs that are stored together: enough to share statements, few enough to keep a large import small in
memory.
"""

KeyedRun = tuple[Run, str, str]
"""A run, its idempotency key, and the hash of the body it arrived in."""

ProcessSummarizer = Callable[[Sequence[Process]], ResultSummary | None]
"""Computes the summary of a result from its processes, while its samples are at hand; without one that is
done when the result is judged.
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


def ingest_run_batch(
    tx: Session,
    project_id: int,
    runs: Sequence[KeyedRun],
    *,
    kind: str,
    received_at: datetime | None = None,
    summarize: ProcessSummarizer | None = None,
) -> list[KeyedRun]:
    """Store whole runs of one project, each with a key of its own; return those that are new."""
    new = list(_select_new_runs(tx, runs))
    session_ids = ensure_imported_sessions(tx, project_id, [run for run, _, _ in new], kind)
    run_ids = insert_runs(tx, project_id, new, session_ids, received_at)
    results = [(run_ids[key], result) for run, key, _ in new for result in run.results]
    insert_results(tx, project_id, results, summarize)
    for run, _, _ in new:
        save_carried_comparisons(tx, run)
    if new and (renamed := find_rename_target_ids(tx)):
        update_machine_of_runs(tx, renamed)
    return new


def ingest_runs(
    tx: Session,
    runs: Iterable[KeyedRun],
    *,
    kind: str = "import",
    summarize: ProcessSummarizer | None = None,
) -> IngestCounts:
    """Store a stream of runs in batches."""
    total = IngestCounts()
    for batch in _split_batches(runs):
        project_id = ensure_project_id(tx, batch[0][0].project)
        new = ingest_run_batch(tx, project_id, batch, kind=kind, summarize=summarize)
        _save_marks(tx, project_id, new)
        results = [result for run, _, _ in new for result in run.results]
        total += IngestCounts(
            runs_new=len(new),
            runs_known=len(batch) - len(new),
            values=sum(result.status is Status.OK for result in results),
            samples=sum(len(process.samples) for result in results for process in result.processes),
        )
    return total


def _save_marks(tx: Session, project_id: int, new: Iterable[KeyedRun]) -> None:
    """Mark what the document of a new run says is invalid."""
    for run, key, _ in new:
        marked = [result for result in run.results if result.invalid]
        if not marked and run.invalid is None:
            continue
        run_id = find_project_run_id(tx, project_id, key)
        assert run_id is not None  # it was stored just now
        if run.invalid:
            set_run_mark(tx, project_id, run_id, run.invalid)
        ids = ensure_series_ids(tx, project_id, [result.series for result in marked])
        for result, series_id in zip(marked, ids, strict=True):
            set_result_mark(tx, project_id, run_id, series_id, result.invalid)


def save_benchmark_descriptions(
    tx: Session, project: str, descriptions: Mapping[Benchmark, tuple[str, Mapping[str, Any]]]
) -> None:
    """Store the source code and settings of benchmark versions that have none yet."""
    project_id = ensure_project_id(tx, project)
    for benchmark, (code, meta) in descriptions.items():
        row_id = ensure_benchmark_id(tx, project_id, benchmark)
        undescribed = sa.and_(BenchmarkRow.id == row_id, BenchmarkRow.code.is_(None))
        tx.execute(sa.update(BenchmarkRow.__table__).where(undescribed).values(code=code, meta=dict(meta)))


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


def _select_new_runs(tx: Session, batch: Sequence[KeyedRun]) -> Iterator[KeyedRun]:
    """Yield the runs of a batch that are not stored yet.

    A stored key with another body is an error, since a run is never replaced. Unless the run was read from a
    file of another tool: asv rewrites its files as it measures more, and of any other file more is known
    later (the unit of a metric). Of such a run, which has grown, only the results that differ are added.
    """
    stored_hashes = _load_stored_hashes(tx, batch)
    for run, key, body_hash in batch:
        source = dict(run.origin).get("source", "")
        # Before runs had a source, it was the key under which a file was stored.
        known_key = source if source in stored_hashes else key
        if stored_hashes.get(known_key) == body_hash or compute_local_run_key(run) in stored_hashes:
            continue
        if known_key not in stored_hashes:
            yield run, key, body_hash
        elif not source:
            raise PerfciError(
                f"The run of commit {run.commit.short_sha} in session {run.session} is stored already "
                "with other content: a run is never replaced, so measure it again in a new session."
            )
        elif hash_values(known_key, body_hash) not in stored_hashes:
            stored = set(measured_samples.load_stored_results_of_run(tx, run))
            new = tuple(result for result in run.results if result not in stored)
            if new:
                yield replace(run, results=new), hash_values(known_key, body_hash), body_hash


def _load_stored_hashes(tx: Session, batch: Sequence[KeyedRun]) -> dict[str, str]:
    """Load the body hashes of the keys that are stored, of all that runs of a batch may be stored under."""
    keys: list[str] = []
    for run, key, body_hash in batch:
        keys += [key, compute_local_run_key(run)]
        if source := dict(run.origin).get("source"):
            keys += [source, hash_values(source, body_hash), hash_values(key, body_hash)]
    query = f"SELECT key, body_hash FROM runs WHERE key IN ({', '.join('?' * len(keys))})"
    return dict(execute_on_driver(tx, query, keys).fetchall())


def compute_local_run_key(run: Run) -> str:
    """Compute the key of a run measured here: a session measures a commit on a machine and environment
    once.
    """
    return hash_values(
        "local",
        [run.session, run.commit.sha, run.commit.dirty, machine_identity(run.machine)],
        [run.environment.values, run.variant.values, run.suite, run.harness],
    )


def insert_runs(
    tx: Session,
    project_id: int,
    runs: Sequence[KeyedRun],
    session_ids: Mapping[str, int],
    received_at: datetime | None = None,
) -> dict[str, int]:
    """Insert the rows of runs, given the ids of their sessions by uid; return their ids by key."""
    if not runs:
        return {}
    commits = ensure_commit_ids(tx, project_id, list(dict.fromkeys(run.commit for run, _, _ in runs)))
    rows = [
        {
            "session_id": session_ids[run.session],
            "commit_id": commits[run.commit.sha, run.commit.dirty],
            "machine_id": ensure_measurement_context_id(tx, run.machine),
            "environment_id": ensure_measurement_context_id(tx, run.environment),
            "variant_id": ensure_measurement_context_id(tx, run.variant),
            "suite": run.suite,
            "harness": run.harness,
            "origin": run.origin,
            "key": key,
            "body_hash": body_hash,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
            "received_at": received_at,
            "processes": count_os_processes((result.series, result.processes) for result in run.results),
        }
        for run, key, body_hash in runs
    ]
    return dict(insert_rows(tx, RUNS, rows, "key", "id"))


def insert_results(
    tx: Session,
    project_id: int,
    results: Sequence[tuple[int, Result]],
    summarize: ProcessSummarizer | None = None,
) -> None:
    """Insert results, given with their run ids, and all their processes; ``summarize`` computes the
    levels.
    """
    if not results:
        return
    series_ids = ensure_series_ids(tx, project_id, [result.series for _, result in results])
    keys = [(run_id, series_id) for (run_id, _), series_id in zip(results, series_ids, strict=True)]
    if len(set(keys)) < len(keys):
        twice = next(result for key, (_, result) in zip(keys, results, strict=True) if keys.count(key) > 1)
        raise PerfciError(f"A run holds two results of {twice.series.label}: expected one for each series.")
    result_ids = reserve_ids(tx, RESULTS, len(results))
    rows = [
        (row_id, *key, *_result_values(result, summarize))
        for row_id, key, (_, result) in zip(result_ids, keys, results, strict=True)
    ]
    bulk_insert(tx, RESULTS, RESULT_COLUMNS, rows)
    process_rows = []
    for result_id, (_, result) in zip(result_ids, results, strict=True):
        for process in result.processes:  # a run has hundreds, so this avoids function calls
            pair, round_, order, started_at = process.pair, process.round, process.order, process.started_at
            process_rows.append(
                (
                    result_id,
                    process.index,
                    process.role._value_,
                    process.status._value_,
                    process.clock._value_,
                    ABSENT if pair is None else pair,
                    ABSENT if round_ is None else round_,
                    ABSENT if order is None else order,
                    None if started_at is None else (started_at - EPOCH) // MILLISECOND,
                    process.duration_s,
                    process.reason and replace_unstorable_characters(process.reason),
                    process.exit_code,
                    process.stderr_tail and replace_unstorable_characters(process.stderr_tail),
                    as_json(process.flags) if process.flags else NO_FLAGS,
                    pack_samples(process.samples),
                )
            )
    bulk_insert(tx, PROCESSES, PROCESS_COLUMNS, process_rows)


def recount_run_processes(tx: Session, run_id: int) -> None:
    """Recount the OS processes of a run after results were added."""
    cell = (SeriesRow.benchmark_id, SeriesRow.parameters)
    process = (ProcessRow.role, ProcessRow.pair, ProcessRow.round, ProcessRow.order, ProcessRow.index)
    distinct_processes = (
        sa.select(*cell, *process)
        .select_from(ProcessRow)
        .join(ResultRow, ProcessRow.result_id == ResultRow.id)
        .join(SeriesRow, ResultRow.series_id == SeriesRow.id)
        .where(ResultRow.run_id == run_id)
        .distinct()
        .subquery()
    )
    counted = sa.select(sa.func.count()).select_from(distinct_processes).scalar_subquery()
    tx.execute(sa.update(RUNS).where(RUNS.c.id == run_id).values(processes=counted))


def count_os_processes(measured: Iterable[tuple[Series, Sequence[Process]]]) -> int:
    """Count the OS processes behind results: all metrics of a cell come from the same processes."""
    cells: dict[Any, list[Sequence[Process]]] = defaultdict(list)
    for series, processes in measured:
        cells[series.benchmark.name, series.benchmark.version, series.parameters].append(processes)
    count = 0
    for groups in cells.values():
        if len(groups) == 1:
            count += len(groups[0])
            continue
        distinct = {
            (item.role._value_, item.pair, item.round, item.order, item.index)
            for item in chain.from_iterable(groups)
        }
        count += len(distinct)
    return count


def _result_values(result: Result, summarize: ProcessSummarizer | None) -> tuple[Any, ...]:
    """Build one row of ``results``; without a summary, the level is computed when it is first read."""
    sample = result.summary
    sample_values: tuple[Any, ...] = (None,) * 6
    if sample:
        sample_values = (sample.value, sample.ci_lo, sample.ci_hi, sample.q25, sample.q75, sample.n)
    level = summarize(result.processes) if summarize and result.status is Status.OK else None
    level_values: tuple[Any, ...] = (None,) * 3
    if level:
        level_values = (level.level, level.clock._value_ if level.clock else "", level.spread)
    return (
        result.status._value_,
        result.reason and replace_unstorable_characters(result.reason),
        result.boundaries._value_,
        result.number,
        *sample_values,
        *level_values,
    )


def set_session_source(tx: Session, sessions: Sequence[str], source: str) -> None:
    """Store the source of sessions measured elsewhere."""
    if sessions:
        tx.execute(sa.update(SessionRow.__table__).where(SessionRow.uid.in_(sessions)).values(source=source))
