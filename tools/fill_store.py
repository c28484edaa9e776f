"""Fill a database with as much as a large team has: ``python -m tools.fill_store URL [SAMPLES]``.

Ten thousand series, twenty samples of each at a commit, written past perfci's own checks but into its own
tables, so that what is measured on it is the reading.
"""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Variant
from perfci.store import Store, open_store
from perfci.store.column_conversions import EPOCH, MILLISECOND
from perfci.store.tables.measurements import ProcessRow, ResultRow
from perfci.store.tables.verdicts import VerdictRow
from perfci.store.transactions import bulk_insert, reserve_ids
from perfci.store.writes import find_or_add_rows, ingest
from tests.support.builders import NOON, PROJECT, a_commit, a_machine, a_run, a_series
from tests.support.stored_runs import ingest_run

SERIES, SUITE = 10_000, 200
PROCESSES, SAMPLES = 5, 4
PER_COMMIT = SERIES * PROCESSES * SAMPLES
"""Samples of a commit."""

RESULTS, PROCESSES_TABLE = ResultRow.__table__, ProcessRow.__table__
VERDICT = (
    "project_id",
    "session_id",
    "series_id",
    "kind",
    "stage",
    "base",
    "head",
    "ratio",
    "interval_lo",
    "interval_hi",
    "base_level",
    "head_level",
    "noise_floor",
    "mde",
    "pairs",
    "reason",
    "evidence",
    "created_at",
)


def fill_to_sample_count(store: Store, samples: int, *, first_commit: int = 0) -> int:
    """Add commits until so many samples are there; the number of the commit after the last."""
    last_commit = samples // PER_COMMIT
    add_commits(store, range(first_commit, last_commit), SERIES)
    return last_commit


def add_commits(store: Store, numbers: Iterable[int], series: int, *, hours_apart: int = 1) -> None:
    """Add commits at which so many series were measured, each always near its own level."""
    dice = random.Random(0)
    levels = [dice.uniform(0.01, 10.0) for _ in range(series)]
    for number in numbers:
        dice = random.Random(number)
        with store.begin() as tx:
            if tx.get_bind().dialect.name == "postgresql":
                tx.connection().exec_driver_sql("SET LOCAL session_replication_role = replica")
            _add_commit(tx, number, levels, dice, hours_apart)


def commit_sha(number: int) -> str:
    return f"{number:08x}" * 5


def store_verdicts_between(tx: Session, base: int, head: int) -> None:
    """A verdict on every series between two commits."""
    project_id = find_or_add_rows.ensure_project_id(tx, PROJECT)
    session_id = find_or_add_rows.require_session_id(tx, f"session-{head}")
    question = ("unchanged", "confirmation", commit_sha(base), commit_sha(head))
    result = (*question, 1.0, 0.99, 1.01, 1.0, 1.0, 0.01, 0.02, 5, "", "[]")
    rows = [
        (project_id, session_id, series_id, *result, (NOON - EPOCH) // MILLISECOND)
        for series_id in range(1, SERIES + 1)
    ]
    bulk_insert(tx, VerdictRow.__table__, VERDICT, rows)


def _add_commit(
    tx: Session, number: int, levels: Sequence[float], dice: random.Random, hours_apart: int
) -> None:
    hours = number * hours_apart
    commit = a_commit(
        number, sha=commit_sha(number), position=number, committed_at=NOON + timedelta(hours=hours)
    )
    empty = a_run(commit=commit, session=f"session-{number}", suite="none")
    ingest_run(tx, empty, f"{number}", "body", kind="history")
    run = tx.execute(sa.select(ingest.RUNS).where(ingest.RUNS.c.key == f"{number}")).one()
    for suite, first in enumerate(range(0, len(levels), SUITE)):
        cells = range(first, min(first + SUITE, len(levels)))
        run_id = reserve_ids(tx, ingest.RUNS, 1)[0]
        started = (NOON - EPOCH) // MILLISECOND + 3_600_000 * hours + suite
        named = {"id": run_id, "suite": f"suite_{suite:02}", "key": f"{number}-{suite}"}
        changed = {**named, "started_at": started, "processes": len(cells) * PROCESSES}
        row = {**run._mapping, "origin": "{}", **changed}
        bulk_insert(tx, ingest.RUNS, list(row), [list(row.values())])
        _add_results(
            tx, run_id, cells, [levels[cell] * dice.gauss(1.0, 0.01) for cell in cells], started, dice
        )


def _add_results(
    tx: Session, run_id: int, cells: range, levels: Sequence[float], started: int, dice: random.Random
) -> None:
    machine, variant = a_machine(), Variant()
    series = [a_series(f"Step.time_{cell:05}", machine=machine, variant=variant) for cell in cells]
    series_ids = find_or_add_rows.ensure_series_ids(
        tx, find_or_add_rows.ensure_project_id(tx, PROJECT), series
    )
    result_ids = reserve_ids(tx, RESULTS, len(cells))
    bulk_insert(tx, RESULTS, ingest.RESULT_COLUMNS, _results(run_id, series_ids, result_ids, levels))
    if tx.get_bind().dialect.name == "postgresql":
        _copy_processes(tx, result_ids, levels, started, dice.getrandbits(32))
        return
    bulk_insert(
        tx, PROCESSES_TABLE, ingest.PROCESS_COLUMNS, list(_processes(result_ids, levels, started, dice))
    )


def _results(
    run_id: int, series_ids: list[int], result_ids: list[int], levels: Sequence[float]
) -> list[tuple[object, ...]]:
    nothing = (None,) * 7
    return [
        (result_id, run_id, series_id, "ok", "", "process", *nothing, level, "wall", 0.02 * level)
        for result_id, series_id, level in zip(result_ids, series_ids, levels, strict=True)
    ]


def _processes(
    result_ids: Sequence[int], levels: Sequence[float], started: int, dice: random.Random
) -> Iterator[tuple[object, ...]]:
    for result_id, level in zip(result_ids, levels, strict=True):
        for index in range(PROCESSES):
            samples = array("d", [level * (1 + 0.02 * dice.random()) for _ in range(SAMPLES)]).tobytes()
            yield (
                result_id,
                index,
                "history",
                "ok",
                "wall",
                -1,
                index,
                index,
                started,
                1.5,
                "",
                0,
                "",
                "[]",
                samples,
            )


COPY_HEADER, COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"

COPY_TYPES = {
    "result_id": ">i8",
    "index": ">i4",
    "role": "S7",
    "status": "S2",
    "clock": "S4",
    "pair": ">i4",
    "round": ">i4",
    "order": ">i4",
    "started_at": ">i8",
    "duration_s": ">f8",
    "reason": "S0",
    "exit_code": ">i4",
    "stderr_tail": "S0",
    "flags": "S2",
    "samples": f"({SAMPLES},)<f8",
}
"""Every process here has fields of the same lengths, so that rows for COPY are one array."""


def _copy_processes(
    tx: Session, result_ids: Sequence[int], levels: Sequence[float], started: int, seed: int
) -> None:
    """Write processes as PostgreSQL's binary COPY takes them, all at once."""
    fields = [("fields", ">i2")]
    for name in ingest.PROCESS_COLUMNS:
        fields += [(f"length of {name}", ">i4"), (name, COPY_TYPES[name])]
    rows = np.zeros((len(result_ids), PROCESSES), np.dtype([field for field in fields if field[1] != "S0"]))
    rows["fields"] = len(ingest.PROCESS_COLUMNS)
    for name in ingest.PROCESS_COLUMNS:
        rows[f"length of {name}"] = 0 if COPY_TYPES[name] == "S0" else np.dtype(COPY_TYPES[name]).itemsize
    rows["result_id"] = np.array(result_ids)[:, None]
    rows["index"] = rows["round"] = rows["order"] = np.arange(PROCESSES)
    rows["role"], rows["status"], rows["clock"], rows["flags"] = "history", "ok", "wall", "[]"
    rows["pair"], rows["started_at"], rows["duration_s"] = -1, started, 1.5
    noise = np.random.default_rng(seed).random(rows["samples"].shape)
    rows["samples"] = np.array(levels)[:, None, None] * (1 + 0.02 * noise)
    names = ", ".join(f'"{name}"' for name in ingest.PROCESS_COLUMNS)
    connection: Any = tx.connection().connection.driver_connection
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY processes ({names}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.write(COPY_HEADER + rows.tobytes() + COPY_END)


if __name__ == "__main__":
    with closing(open_store(sys.argv[1], create=True)) as store:
        print(fill_to_sample_count(store, int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000), "commits")
