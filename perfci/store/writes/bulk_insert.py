"""Insert whole runs fast: rows as plain tuples, in as few statements as possible.

Binding by SQLAlchemy costs three times what SQLite needs for the rows themselves, and PostgreSQL takes
rows by COPY fifteen times as fast as one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import PerfciError, Process, Result, ResultSummary, Run, Series, Status
from perfci.store.conversions import pack_samples, replace_unstorable
from perfci.store.dialects import bulk_insert, insert_rows, new_ids
from perfci.store.tables.base import ABSENT, as_json, as_ms, core_table
from perfci.store.tables.measurements import ProcessRow, ResultRow, RunRow, SeriesRow
from perfci.store.writes import row_ids

KeyedRun = tuple[Run, str, str]
"""A run, its idempotency key, and the hash of the body it arrived in."""

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

RUNS = core_table(RunRow)

ProcessSummarizer = Callable[[Sequence[Process]], ResultSummary | None]
"""Computes the summary of a result from its processes."""

NO_FLAGS = as_json(())

NO_SUMMARY = (None,) * 6

NO_RESULT_SUMMARY = (None,) * 3


def insert_runs(
    tx: Session, project_id: int, runs: Sequence[KeyedRun], received_at: datetime | None = None
) -> dict[str, int]:
    """Insert the rows of runs whose sessions are stored; return their ids by key."""
    if not runs:
        return {}
    commits = row_ids.ensure_commit_ids(tx, project_id, list(dict.fromkeys(run.commit for run, _, _ in runs)))
    rows = [
        {
            "session_id": row_ids.require_session_id(tx, run.session),
            "commit_id": commits[run.commit.sha, run.commit.dirty],
            "machine_id": row_ids.ensure_machine_id(tx, run.machine),
            "environment_id": row_ids.ensure_environment_id(tx, run.environment),
            "variant_id": row_ids.ensure_variant_id(tx, run.variant),
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
    series_ids = row_ids.ensure_series_ids(tx, project_id, [result.series for _, result in results])
    keys = [(run_id, series_id) for (run_id, _), series_id in zip(results, series_ids, strict=True)]
    if len(set(keys)) < len(keys):
        twice = next(result for key, (_, result) in zip(keys, results, strict=True) if keys.count(key) > 1)
        raise PerfciError(f"A run holds two results of {twice.series.label}: expected one for each series.")
    result_ids = new_ids(tx, core_table(ResultRow), len(results))
    rows = [
        (row_id, *key, *_result_values(result, summarize))
        for row_id, key, (_, result) in zip(result_ids, keys, results, strict=True)
    ]
    bulk_insert(tx, core_table(ResultRow), RESULT_COLUMNS, rows)
    processes = [
        (row_id, *_process_values(process))
        for row_id, (_, result) in zip(result_ids, results, strict=True)
        for process in result.processes
    ]
    bulk_insert(tx, core_table(ProcessRow), PROCESS_COLUMNS, processes)


def update_process_count(tx: Session, run_id: int) -> None:
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
    sample_values: tuple[Any, ...] = NO_SUMMARY
    if sample:
        sample_values = (sample.value, sample.ci_lo, sample.ci_hi, sample.q25, sample.q75, sample.n)
    level = summarize(result.processes) if summarize and result.status is Status.OK else None
    level_values: tuple[Any, ...] = NO_RESULT_SUMMARY
    if level:
        level_values = (level.level, level.clock._value_ if level.clock else "", level.spread)
    return (
        result.status._value_,
        replace_unstorable(result.reason),
        result.boundaries._value_,
        result.number,
        *sample_values,
        *level_values,
    )


def _process_values(process: Process) -> tuple[Any, ...]:
    """Build one row of ``processes``; a run has hundreds, so this avoids function calls."""
    pair, round_, order, started_at = process.pair, process.round, process.order, process.started_at
    return (
        process.index,
        process.role._value_,
        process.status._value_,
        process.clock._value_,
        ABSENT if pair is None else pair,
        ABSENT if round_ is None else round_,
        ABSENT if order is None else order,
        None if started_at is None else as_ms(started_at),
        process.duration_s,
        replace_unstorable(process.reason),
        process.exit_code,
        replace_unstorable(process.stderr_tail),
        as_json(process.flags) if process.flags else NO_FLAGS,
        pack_samples(process.samples),
    )
