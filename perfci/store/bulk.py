"""Add whole runs fast: rows as plain tuples, converted once by our own functions, in as few statements as can be.

SQLAlchemy's way of binding costs three times what SQLite needs for the rows themselves, and PostgreSQL takes rows by
COPY fifteen times as fast as one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from perfci.model import PerfciError, Process, Result, Run
from perfci.store import coordinates, values
from perfci.store.coordinates import table
from perfci.store.dialects import bulk_insert, new_ids
from perfci.store.tables import ProcessRow, ResultRow, RunRow, as_json, as_ms

Document = tuple[Run, str, str]
"""A run from elsewhere, its idempotency key, and the hash of the body it came in."""

RUN = (
    "id", "session_id", "commit_id", "machine_id", "environment_id", "variant_id", "suite", "harness", "origin", "key",
    "body_hash", "started_at", "finished_at", "received_at",
)  # fmt: skip

RESULT = (
    "id", "run_id", "series_id", "status", "reason", "boundaries", "number", "value", "ci_lo", "ci_hi", "q25", "q75",
    "n",
)  # fmt: skip

PROCESS = (
    "result_id", "index", "role", "status", "clock", "pair", "round", "order", "started_at", "duration_s", "reason",
    "exit_code", "stderr_tail", "flags", "samples",
)  # fmt: skip

NO_FLAGS = as_json(())


def insert_runs(
    tx: Session, project_id: int, runs: Sequence[Document], received_at: datetime | None = None
) -> dict[str, int]:
    """Add run rows, of sessions that are known, and answer their ids by key."""
    if not runs:
        return {}
    commits = coordinates.commit_ids(tx, project_id, list(dict.fromkeys(run.commit for run, _, _ in runs)))
    run_ids = new_ids(tx, table(RunRow), len(runs))
    rows = [
        (
            run_id,
            coordinates.session_id(tx, run.session),
            commits[run.commit.sha, run.commit.dirty],
            coordinates.machine_id(tx, run.machine),
            coordinates.environment_id(tx, run.environment),
            coordinates.variant_id(tx, run.variant),
            run.suite,
            run.harness,
            as_json(run.origin),
            key,
            body_hash,
            as_ms(run.started_at),
            run.finished_at and as_ms(run.finished_at),
            received_at and as_ms(received_at),
        )
        for run_id, (run, key, body_hash) in zip(run_ids, runs, strict=True)
    ]
    bulk_insert(tx, table(RunRow), RUN, rows)
    return {key: run_id for run_id, (_, key, _) in zip(run_ids, runs, strict=True)}


def insert_results(tx: Session, project_id: int, results: Sequence[tuple[int, Result]]) -> None:
    """Add results of runs, by the ids of these, with all their processes."""
    if not results:
        return
    series_ids = coordinates.series_ids(tx, project_id, [result.series for _, result in results])
    keys = [(run_id, series_id) for (run_id, _), series_id in zip(results, series_ids, strict=True)]
    _require_distinct(keys, results)
    result_ids = new_ids(tx, table(ResultRow), len(results))
    rows = [
        (row_id, *key, *_measured(result)) for row_id, key, (_, result) in zip(result_ids, keys, results, strict=True)
    ]
    bulk_insert(tx, table(ResultRow), RESULT, rows)
    processes = [
        (row_id, *_process(process))
        for row_id, (_, result) in zip(result_ids, results, strict=True)
        for process in result.processes
    ]
    bulk_insert(tx, table(ProcessRow), PROCESS, processes)


def _require_distinct(keys: Sequence[tuple[int, int]], results: Sequence[tuple[int, Result]]) -> None:
    seen = set()
    for key, (_, result) in zip(keys, results, strict=True):
        if key in seen:
            raise PerfciError(f"A run holds two results of {result.series.label}: expected one for each series.")
        seen.add(key)


def _measured(result: Result) -> tuple[Any, ...]:
    one = result.summary
    summary = (one.value, one.ci_lo, one.ci_hi, one.q25, one.q75, one.n) if one else (None,) * 6
    reason = values.storable(result.reason)
    return (result.status.value, reason, result.boundaries.value, result.number, *summary)


def _process(process: Process) -> tuple[Any, ...]:
    return (
        process.index,
        process.role.value,
        process.status.value,
        process.clock.value,
        values.or_absent(process.pair),
        values.or_absent(process.round),
        values.or_absent(process.order),
        process.started_at and as_ms(process.started_at),
        process.duration_s,
        values.storable(process.reason),
        process.exit_code,
        values.storable(process.stderr_tail),
        as_json(process.flags) if process.flags else NO_FLAGS,
        values.pack(process.samples),
    )
