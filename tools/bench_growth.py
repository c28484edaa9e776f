"""How reading and storing slow down as a database grows: ``python -m tools.bench_growth [sqlite]
[postgresql]``.

Ten thousand series; samples in millions. Times are in milliseconds: the best of many on the clock, and in
brackets the CPU time of this process in it, which neighbours on a busy machine disturb less.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store import Store, open_store
from perfci.store.dialects import database_size, is_sqlite
from perfci.store.projects import find_project
from perfci.store.queries import (
    measured_samples,
    paged_lists,
    series_commits_machines,
)
from perfci.store.queries.comparisons import comparison_verdicts
from perfci.store.queries.comparisons.levels_at_two_commits import load_levels_of_two_commits
from tests.support.builders import NOON, PROJECT, a_sha
from tests.support.databases import fresh_database
from tests.support.stored_runs import ingest_run
from tools.bench_store import build_large_run
from tools.fill_store import PER_COMMIT, SERIES, commit_sha, fill_to_sample_count, store_verdicts_between

MILLIONS = (1, 3, 10)
REPEATS = 30


def build_timed_queries(commits: int, dice: random.Random) -> dict[str, Callable[[Session], object]]:
    base, head = commit_sha(commits - 2), commit_sha(commits - 1)
    between = comparison_verdicts.CommitPair(1, base, head)
    return {
        "points of a series": lambda tx: measured_samples.load_history(tx, dice.randrange(1, SERIES)),
        "levels of two commits": lambda tx: load_levels_of_two_commits(tx, 1, base, head),
        "verdicts between them, counted": lambda tx: comparison_verdicts.count_ranked_verdicts(tx, between),
        "page of 100 of these": lambda tx: comparison_verdicts.list_ranked_verdicts(tx, between, limit=101),
        "page of 100 series": lambda tx: paged_lists.load_series_page(
            tx, 1, after=dice.randrange(SERIES - 100), limit=100
        ),
        "page of 100 runs": lambda tx: paged_lists.load_runs_page(
            tx, 1, paged_lists.RunFilter(), before=0, limit=100
        ),
        "page of 100 commits": lambda tx: paged_lists.load_commits_page(tx, 1, before=0, limit=100),
        "page of 100 verdicts": lambda tx: paged_lists.load_verdicts_page(
            tx, 1, paged_lists.VerdictFilter(), before=0, limit=100
        ),
        "machines": lambda tx: paged_lists.load_machines_page(tx, 1, after=0, limit=100),
        "a commit by its prefix": lambda tx: series_commits_machines.find_commit(tx, PROJECT, head[:12]),
        "the project": lambda tx: find_project(tx, PROJECT),
    }


def format_best_times(work: Callable[[], object]) -> str:
    took = []
    for _ in range(REPEATS):
        wall, own = time.perf_counter(), time.process_time()
        work()
        took.append((time.perf_counter() - wall, time.process_time() - own))
    wall, own = (min(item[place] for item in took) * 1000 for place in (0, 1))
    return f"{wall:8.1f} ({own:6.1f})"


def time_query(store: Store, ask: Callable[[Session], object]) -> str:
    def once() -> None:
        with store.read() as tx:
            ask(tx)

    return format_best_times(once)


def time_ingest(store: Store, first: int, dice: random.Random) -> str:
    runs = iter([(number, build_large_run(number, dice)) for number in range(first, first + REPEATS)])

    def once() -> None:
        number, run = next(runs)
        with store.begin() as tx:
            ingest_run(tx, run, a_sha(number), "body", received_at=NOON)

    return format_best_times(once)


def measure_growth(kind: str) -> None:
    dice = random.Random(7)
    figures: dict[str, list[str]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        fresh_database(kind, Path(folder)) as url,
        closing(open_store(url, create=False)) as store,
    ):
        commits = 0
        for million in MILLIONS:
            commits = fill_to_sample_count(store, million * 1_000_000, first_commit=commits)
            judge_and_analyze(store, commits)
            for name, ask in build_timed_queries(commits, dice).items():
                figures.setdefault(name, []).append(time_query(store, ask))
            stored = time_ingest(store, 1_000_000 + commits * 100, dice)
            figures.setdefault("storing a run of 100 benchmarks", []).append(stored)
            with store.read() as tx:
                figures.setdefault("megabytes", []).append(f"{database_size(tx) / 1e6:8.0f}         ")
            print_growth_table(kind, figures)


def judge_and_analyze(store: Store, commits: int) -> None:
    """Decide on the last two commits, and let the planner look, as a server does by itself within a
    minute.
    """
    with store.begin() as tx:
        store_verdicts_between(tx, commits - 2, commits - 1)
    with store.begin() as tx:
        if not is_sqlite(tx):
            tx.execute(sa.text("ANALYZE"))


def print_growth_table(kind: str, figures: dict[str, list[str]]) -> None:
    print(f"\n{kind}, {SERIES} series, {PER_COMMIT} samples a commit; millions of samples: {MILLIONS}")
    for name, values in figures.items():
        print(f"  {name:34}{' '.join(values)}", flush=True)


if __name__ == "__main__":
    for kind in sys.argv[1:] or ("sqlite", "postgresql"):
        measure_growth(kind)
