"""How fast the store takes runs, beside a plain insert of the same rows: ``python -m tools.bench_store``.

The plain insert is the limit: ready tuples, the driver's own executemany or COPY, the same tables with all
their constraints, the same number of runs in one commit. Both take turns, so that a busy machine slows
both.
"""

from __future__ import annotations

import gc
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from perfci.history.result_summaries import summarize_processes
from perfci.model import Result, Run, Status, Variant
from perfci.store import Store, open_store
from perfci.store.dialects import postgresql_type_name
from perfci.store.open_database import parse_database_url
from perfci.store.tables.base import TableBase
from perfci.store.writes import find_or_add_rows
from perfci.store.writes import ingest as writes
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_machine,
    a_process,
    a_series,
    a_sha,
    an_environment,
)
from tests.support.databases import fresh_database

BENCHMARKS, PROCESSES, SAMPLES = 100, 5, 4
"""One upload: 500 rows of processes. The study's shape, and the harder of the two that are common."""

GROUP, TURNS = 32, 16

RUN = tuple(column.name for column in writes.RUNS.columns)

TABLES = {
    "runs": RUN,
    "results": writes.RESULT_COLUMNS,
    "processes": ("id", *writes.PROCESS_COLUMNS),
}


def build_large_run(
    number: int, dice: random.Random, shape: tuple[int, int, int] = (BENCHMARKS, PROCESSES, SAMPLES)
) -> Run:
    """Runs share no object with each other, as runs that were parsed do not; its series share machine and
    variant.
    """
    machine, variant = a_machine(), Variant((("python", "3.12"), ("torch", "2.13")))
    benchmarks, processes_each, samples = shape
    results = []
    for cell in range(benchmarks):
        series = a_series(
            f"training.Step.time_step_{cell:04}", parameters={"batch": "8"}, machine=machine, variant=variant
        )
        processes = [
            a_process(*(dice.random() for _ in range(samples)), index=index, round=index, order=cell)
            for index in range(processes_each)
        ]
        results.append(Result(series, Status.OK, tuple(processes)))
    return Run(
        project=PROJECT,
        session=f"session-{number}",
        commit=a_commit(number, sha=f"{number:040x}"),
        machine=machine,
        environment=an_environment(torch="2.13.0"),
        variant=variant,
        suite="benchmarks",
        harness="perfci/1",
        started_at=NOON + timedelta(minutes=number),
        results=tuple(results),
    )


def ingest_together(store: Store, runs: Sequence[Run], first: int) -> None:
    """As the server stores what arrives together."""
    documents = [(run, a_sha(number), "body") for number, run in enumerate(runs, first)]
    with store.begin() as tx, store.savepoint(tx):
        writes.ingest_run_batch(
            tx,
            find_or_add_rows.ensure_project_id(tx, PROJECT),
            documents,
            kind="history",
            received_at=NOON,
            summarize=summarize_processes,
        )


class Plain:
    """The rows that perfci stored of a group, taken from its database and put into another one."""

    def __init__(self, url: str, source: str) -> None:
        connect = connect_driver(url)
        self.connection, self.source = connect, source
        self.rows: list[dict[str, list[Any]]] = []

    def prepare(self, count: int) -> None:
        with closing(connect_driver(self.source)) as source:
            run_ids = [row[0] for row in source.execute(f"SELECT max(id) - {count} FROM runs")]
            self.rows = [read_rows_of_run(source, run_ids[0] + number) for number in range(1, count + 1)]
            existing = (
                "machines",
                "environments",
                "variants",
                "projects",
                "benchmarks",
                "series",
                "sessions",
                "commits",
            )
            for name in existing:
                self._copy_missing(source, name)
        self.connection.commit()

    def _copy_missing(self, source: Any, name: str) -> None:
        newest = self.connection.execute(f"SELECT coalesce(max(id), 0) FROM {name}").fetchone()[0]
        cursor = source.execute(f"SELECT * FROM {name} WHERE id > {newest} ORDER BY id")
        names = [column[0] for column in cursor.description]
        insert_rows(self.connection, name, names, cursor.fetchall())

    def insert(self) -> None:
        for rows in self.rows:
            for name, columns in TABLES.items():
                insert_rows(self.connection, name, columns, rows[name])
        self.connection.commit()


def connect_driver(url: str) -> Any:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")
        return connection
    return psycopg.connect(
        parse_database_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    )


def read_rows_of_run(source: Any, run_id: int) -> dict[str, list[Any]]:
    of_run = {
        "runs": f"id = {run_id}",
        "results": f"run_id = {run_id}",
        "processes": f"result_id IN (SELECT id FROM results WHERE run_id = {run_id})",
    }
    return {
        name: source.execute(
            f"SELECT {quote_columns(columns)} FROM {name} WHERE {of_run[name]} ORDER BY id"
        ).fetchall()
        for name, columns in TABLES.items()
    }


def insert_rows(connection: Any, name: str, columns: Sequence[str], rows: list[Any]) -> None:
    if isinstance(connection, sqlite3.Connection):
        places = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {name} ({quote_columns(columns)}) VALUES ({places})", rows)
        return
    table = TableBase.metadata.tables[name]
    with connection.cursor().copy(
        f"COPY {name} ({quote_columns(columns)}) FROM STDIN (FORMAT BINARY)"
    ) as copy:
        copy.set_types([postgresql_type_name(table.c[column].type) for column in columns])
        for row in rows:
            copy.write_row(row)


def quote_columns(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def time_per_run(work: Callable[[], None]) -> tuple[float, float]:
    gc.collect()
    gc.freeze()  # the runs to store and what the last turn left are nobody's work now
    wall, own = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - wall) * 1000 / GROUP, (time.process_time() - own) * 1000 / GROUP


def measure_store(kind: str) -> None:
    dice = random.Random(1)
    ours: list[tuple[float, float]] = []
    plain: list[tuple[float, float]] = []
    with (
        tempfile.TemporaryDirectory() as item,
        tempfile.TemporaryDirectory() as other,
        fresh_database(kind, Path(item)) as url,
        fresh_database(kind, Path(other)) as limit_url,
        closing(open_store(url, create=False, durable=True)) as store,
    ):
        limit = Plain(limit_url, url)
        with closing(limit.connection):
            ingest_together(store, [build_large_run(0, dice)], 0)
            for turn in range(TURNS):
                first = 1 + turn * GROUP
                runs = [build_large_run(number, dice) for number in range(first, first + GROUP)]
                ours.append(time_per_run(partial(ingest_together, store, runs, first)))
                limit.prepare(GROUP)
                plain.append(time_per_run(limit.insert))
    for name, place in (("wall", 0), ("CPU of this process", 1)):
        of_ours, of_plain = (min(turn[place] for turn in turns) for turns in (ours, plain))
        share = statistics.median(p[place] / o[place] for o, p in zip(ours, plain, strict=True))
        print(
            f"{kind:10}  {name:20}  perfci {of_ours:6.2f} ms a run   plain {of_plain:6.2f} ms"
            f"   best against best {of_plain / of_ours:4.0%}   median of turns {share:4.0%}"
        )


if __name__ == "__main__":
    print(f"{BENCHMARKS} benchmarks x {PROCESSES} processes x {SAMPLES} samples a run, {GROUP} runs a commit")
    for kind in sys.argv[1:] or ("sqlite", "postgresql"):
        measure_store(kind)
