"""What partitions of samples cost and give on PostgreSQL: ``python -m tools.bench_partitions [MILLIONS]``.

Loads a hundred million samples (ten thousand series, 500 commits, 25 of them a month and a partition) into a
partitioned table by COPY, prints the rate and the size, the times of ``tools.bench_growth`` and of the judge
beside them, and what dropping the oldest month takes. It needs 20 GB of disk and a quarter of an hour.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from perfci.config import Settings
from perfci.history.load_series_points import load_series_points
from perfci.history.series_histories import SeriesHistories
from perfci.project_policies import build_policy
from perfci.service.incidents.evaluate_project import evaluate_project
from perfci.store import Store, backup, open_store
from perfci.store.dialects import database_size
from perfci.store.maintenance.partition_processes import (
    add_partitions_ahead,
    drop_partition,
    find_droppable_partitions,
    list_partitions,
    partition_processes,
)
from tests.support.builders import NOON, PROJECT
from tests.support.databases import fresh_database
from tools.bench_growth import build_timed_queries, judge_and_analyze, time_ingest, time_query
from tools.fill_store import PER_COMMIT, SERIES, add_commits

COMMITS_PER_MONTH, HOURS_APART = 25, 29
RESULTS_PER_MONTH = COMMITS_PER_MONTH * SERIES
JUDGED_SERIES = 100


def measure_partitions(samples: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        fresh_database("postgresql", Path(folder)) as url,
        closing(open_store(url, create=False)) as store,
    ):
        with store.begin() as tx:
            partition_processes(tx, RESULTS_PER_MONTH)
        commits = samples // PER_COMMIT
        with timed(f"loaded {samples:,} samples"):
            load_months(store, commits)
        print_sizes(store)
        with timed("analyzed"):
            judge_and_analyze(store, commits)
        measure_questions(store, commits)
        measure_judge(store)
        with timed("backed up"):
            backup(url, Path(folder) / "copy.gz")
        drop_oldest_month(store)
        print_sizes(store)


def load_months(store: Store, commits: int) -> None:
    """Add commits month by month, with the partitions that each needs."""
    for first in range(0, commits, COMMITS_PER_MONTH):
        began = time.perf_counter()
        with store.begin() as tx:
            add_partitions_ahead(tx)
        some = range(first, min(first + COMMITS_PER_MONTH, commits))
        add_commits(store, some, SERIES, hours_apart=HOURS_APART)
        rate = len(some) * PER_COMMIT / (time.perf_counter() - began)
        print(f"  month {first // COMMITS_PER_MONTH + 1}: {rate:,.0f} samples a second", flush=True)


def measure_questions(store: Store, commits: int) -> None:
    dice = random.Random(7)
    for name, ask in build_timed_queries(commits, dice).items():
        print(f"  {name:40}{time_query(store, ask)}", flush=True)
    stored = time_ingest(store, 1_000_000 + commits * 100, dice)
    print(f"  {'storing a run of 100 benchmarks':40}{stored}")


def measure_judge(store: Store) -> None:
    """Judge a hundred series as the worker does, and read their points as a page does."""
    policy = build_policy(Settings())
    series_ids = range(1, JUDGED_SERIES + 1)
    with timed(f"judged {JUDGED_SERIES} series, points stored"):
        with store.read() as tx:
            histories = SeriesHistories.load(tx, series_ids)
            points = histories.derive_points(tx)
        changes = histories.find_change_points(policy)
        with store.begin() as tx:
            histories.save(tx, PROJECT, changes, points)
    asked = time_query(store, lambda tx: load_series_points(tx, [7]))
    print(f"  {'stored points of a series':40}{asked}")
    with timed(f"judged {JUDGED_SERIES} series again"), store.read() as tx:
        SeriesHistories.load(tx, series_ids).find_change_points(policy)
    with timed(f"evaluated the incidents of {SERIES} series"), store.read() as tx:
        evaluate_project(tx, PROJECT, policy, Settings().history)


def drop_oldest_month(store: Store) -> None:
    month = timedelta(hours=COMMITS_PER_MONTH * HOURS_APART)
    with timed("found what is a month old"), store.read() as tx:
        [oldest, *_] = find_droppable_partitions(tx, NOON + month)
    with timed("dropped it"), store.begin() as tx:
        print(f"  {drop_partition(tx, oldest)}")


def print_sizes(store: Store) -> None:
    sizes = sa.text(
        "SELECT relname, pg_total_relation_size(oid) / 1000000, pg_indexes_size(oid) / 1000000 FROM pg_class "
        "WHERE relname IN ('results', 'processes_kept') OR relname = :newest ORDER BY relname"
    )
    with store.read() as tx:
        partitions = list_partitions(tx)
        print(f"  {len(partitions)} partitions, {database_size(tx) / 1e9:.2f} GB")
        for name, total, indexes in tx.execute(sizes, {"newest": partitions[1].name}):
            print(f"  {name}: {total} MB, indexes {indexes} MB", flush=True)


@contextmanager
def timed(what: str) -> Iterator[None]:
    wall, own = time.perf_counter(), time.process_time()
    yield
    print(f"{what}: {time.perf_counter() - wall:.2f} s ({time.process_time() - own:.2f})", flush=True)


if __name__ == "__main__":
    measure_partitions(int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 100_000_000)
