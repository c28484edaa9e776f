"""What pages of the dashboard cost: CPU of one request, compressed size, elements, growth over commits.

    python -m tools.bench_pages [--series 10000] [--flat-commits 50]
        [--deep-series 2000] [--commits 500 1700 5000] [--store URL] [--clients 8] [--folder FOLDER]

A flat store has many series over few commits, a deep one fewer series over many; ``--folder`` keeps both for
the next time. ``--store`` measures one that exists, such as an imported history, and ``--clients 0`` leaves
out requests at the same time. Requests go to the application itself, in this process and with the garbage
collector set as the server sets it: no socket and no other process is in the figures, and CPU time depends
less on neighbours than the clock.
"""

from __future__ import annotations

import argparse
import gzip
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient

from perfci.config import Settings
from perfci.history.point_columns import DETAILS, LEVELS, PointColumns
from perfci.history.store_series_points import build_series_points_records
from perfci.model import ChangePoint, Variant
from perfci.project_policies import build_project_policies
from perfci.service.gc_tuning import tune_gc
from perfci.service.incidents.evaluate_project import evaluate_project
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.store import Store, open_store
from perfci.store.projects import load_projects
from perfci.store.queries.series_commits_machines import load_commits_by_id, load_project_series, sort_commits
from perfci.store.tables.measurements import ResultRow, RunRow
from perfci.store.transactions import bulk_insert, reserve_ids
from perfci.store.verdicts_and_change_points import save_change_points
from perfci.store.writes import find_or_add_rows, ingest
from perfci.store.writes.series_points import SeriesPointsUpdate, save_series_points
from perfci_web import create_app
from perfci_web.page_urls import ProjectLinks, encode_project_segment
from tests.support.builders import NOON, PROJECT, a_commit, a_machine, a_run, a_series
from tests.support.stored_runs import ingest_run
from tools.fill_store import commit_sha
from tools.print_bench_figures import Figure, print_figures_and_exit

REQUESTS, CLIENTS = 5, 8
HTML_CPU_MS, CSV_CPU_MS, ALONE_MS, TOGETHER_MS = 60.0, 150.0, 100.0, 400.0
PAGE_KB, JSON_KB, ELEMENTS = 15.0, 20.0, 3000
STEP = 1.2
"""By how much every tenth series gets worse in the middle of its history."""

RUNS, RESULTS = RunRow.__table__, ResultRow.__table__


@dataclass(frozen=True)
class Cost:
    """What one address took, in milliseconds: the least CPU, which neighbours only swell, the slowest request
    alone and of several clients; its compressed size and its HTML elements."""

    cpu_ms: float
    alone_ms: float
    together_ms: float
    kilobytes: float
    elements: int


def measure_store(name: str, store: Store, clients: int) -> Iterator[tuple[str, Cost]]:
    """Request every page of the project of a store."""
    with tune_gc():
        yield from _measure_pages(name, store, clients)


def _measure_pages(name: str, store: Store, clients: int) -> Iterator[tuple[str, Cost]]:
    client = create_app(store).test_client()
    with store.read() as tx:
        project = load_projects(tx)[0].slug
        series = list(load_project_series(tx, project).items())
        commits = load_commits_by_id(tx)
    links = ProjectLinks(project)
    middle = links.series(series[len(series) // 2][1])
    newest = sort_commits(commits.values())[-2:]
    root = f"/{encode_project_segment(project)}"
    word = series[0][1].benchmark.name[:6]
    addresses = {
        "overview": f"{root}/",
        "benchmarks": f"{root}/benchmarks",
        "benchmarks by change": f"{root}/benchmarks?sort=change",
        "search": f"{root}/benchmarks?q={word}",
        "benchmarks.csv": f"{root}/benchmarks.csv",
        "series": middle,
        "figure of a series": links.series_part(series[len(series) // 2][1], "figure"),
        "series.csv": re.sub(r"(\?|$)", r".csv\1", middle, count=1),
        "series.svg": re.sub(r"(\?|$)", r".svg\1", middle, count=1),
        "benchmark": links.benchmark(series[len(series) // 2][1].benchmark.name),
        "changes": f"{root}/changes",
        "incidents": f"{root}/incidents",
        "commit": links.commit(newest[-1].sha),
        "compare": links.compare(newest[0].sha, newest[-1].sha),
    }
    for page, address in addresses.items():
        response = client.get(address)
        if response.status_code != 200:
            print(f"{name} {page}: {response.status}, left out")
            continue
        yield page, measure_address(client, address, response.get_data(), clients)


def measure_address(client: FlaskClient, address: str, body: bytes, clients: int) -> Cost:
    """Request one address several times alone, then from several clients at once."""
    cpu, clock = [], []
    for _ in range(REQUESTS):
        began, began_cpu = time.perf_counter(), time.process_time()
        client.get(address)
        clock.append(1000 * (time.perf_counter() - began))
        cpu.append(1000 * (time.process_time() - began_cpu))
    return Cost(
        min(cpu),
        max(clock),
        max(request_together(client.application, address, clients), default=0.0),
        len(gzip.compress(body, 6)) / 1000,
        len(re.findall(rb"<[a-z]", body)),
    )


def request_together(app: Flask, address: str, clients: int) -> list[float]:
    """How long the requests of several clients at once take, in milliseconds."""
    took: list[float] = []

    def request() -> None:
        client = app.test_client()
        for _ in range(2):
            began = time.perf_counter()
            client.get(address)
            took.append(1000 * (time.perf_counter() - began))

    threads = [threading.Thread(target=request) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def report_costs(name: str, costs: Iterator[tuple[str, Cost]]) -> Iterator[Figure]:
    for page, cost in costs:
        is_text = page.endswith("csv")
        limit = CSV_CPU_MS if is_text else HTML_CPU_MS
        size = JSON_KB if page.startswith("figure") else PAGE_KB
        text = f"{cost.cpu_ms:.0f} ms CPU, {cost.alone_ms:.0f} ms alone"
        if cost.together_ms:
            text += f", {cost.together_ms:.0f} ms together"
        text += f", {cost.kilobytes:.1f} kB, {cost.elements:,} elements"
        small = is_text or (cost.kilobytes <= size and cost.elements <= ELEMENTS)
        limits = f"{limit:.0f} ms" if is_text else f"{limit:.0f} ms, {size:.0f} kB"
        yield Figure(f"{name}: {page}", text, limits, cost.cpu_ms <= limit and small)


def fill_deep_store(store: Store, series_count: int, commits: int) -> None:
    """Add a history of values without samples, their points, and a step in every tenth series."""
    with store.begin() as tx:
        machine, variant = a_machine(), Variant()
        series = [
            a_series(f"Deep.time_{number:05}", machine=machine, variant=variant)
            for number in range(series_count)
        ]
        project_id = find_or_add_rows.ensure_project_id(tx, PROJECT)
        series_ids = find_or_add_rows.ensure_series_ids(tx, project_id, series)
        dice = np.random.default_rng(0)
        levels = dice.uniform(0.01, 10.0, series_count)[:, np.newaxis] * dice.normal(
            1, 0.01, (series_count, commits)
        )
        levels[::10, commits // 2 :] *= STEP
        # Rows arrive by commit: kept up to date, an index by series would take most of the time.
        [by_series] = RESULTS.indexes
        by_series.drop(tx.connection())
        first_id, commit_ids = 0, []
        for number in range(commits):
            commit = a_commit(
                number + 1,
                sha=commit_sha(number),
                position=number,
                committed_at=NOON + timedelta(hours=number),
            )
            ingest_run(
                tx,
                a_run(commit=commit, session=f"session-{number}", suite="deep"),
                f"{number}",
                "",
                kind="history",
            )
            run = tx.execute(sa.select(RUNS.c.id, RUNS.c.commit_id).where(RUNS.c.key == f"{number}")).one()
            commit_ids.append(run.commit_id)
            ids = reserve_ids(tx, RESULTS, series_count)
            first_id = first_id or ids[0]
            nothing = (None,) * 5
            rows = [
                (row_id, run.id, series_id, "ok", "", "unknown", None, level, *nothing, level, "wall", 0.0)
                for row_id, series_id, level in zip(ids, series_ids, levels[:, number].tolist(), strict=True)
            ]
            bulk_insert(tx, RESULTS, ingest.RESULT_COLUMNS, rows)
        by_series.create(tx.connection())
        stored = load_commits_by_id(tx)
        updates = []
        for place, series_id in enumerate(series_ids):
            points, details = np.zeros(commits, LEVELS), np.zeros(commits, DETAILS)
            points["commit_id"], points["level"] = commit_ids, levels[place]
            details["result_id"] = first_id + place + series_count * np.arange(commits)
            details["results"], details["lo"], details["hi"] = 1, levels[place], levels[place]
            columns = PointColumns(points, details)
            records = build_series_points_records(tx, {series_id: columns}, stored, {series_id})
            updates.append(SeriesPointsUpdate(records[series_id], 0, list(columns.split_blocks())))
        save_series_points(tx, PROJECT, updates)
        middle = commits // 2
        save_change_points(
            tx,
            {
                series_ids[place]: [
                    ChangePoint(
                        series[place],
                        commit_sha(middle),
                        commit_sha(middle - 1),
                        float(np.median(levels[place, :middle])),
                        float(np.median(levels[place, middle:])),
                    )
                ]
                for place in range(0, series_count, 10)
            },
        )


def store_incidents(store: Store) -> None:
    """Evaluate the project as a server does: its pages read stored incidents, and derive none."""
    with store.read() as tx:
        [project] = load_projects(tx)
        policies = build_project_policies(Settings(), project)
        evaluation = evaluate_project(tx, project.slug, policies.policy, policies.history)
    reconcile_incidents(store, project, policies.policy, evaluation, datetime.now(UTC))


def measure_all(arguments: argparse.Namespace, folder: Path) -> Iterator[Figure]:
    for url in arguments.store:
        with closing(open_store(url, create=False)) as store:
            yield from report_costs(url.rpartition("/")[2], measure_store(url, store, arguments.clients))
    stores = [("flat", arguments.series, arguments.flat_commits)] if arguments.series else []
    stores += [(f"deep {commits}", arguments.deep_series, commits) for commits in arguments.commits]
    cpu: dict[str, list[float]] = {}
    for name, series, commits in stores:
        path = folder / f"{series}-{commits}.db"
        is_filled = path.exists()
        with closing(open_store(f"sqlite:///{path}", create=True)) as store:
            if not is_filled:
                fill_deep_store(store, series, commits)
                store_incidents(store)
            costs = list(measure_store(name, store, arguments.clients))
            for page, cost in costs:
                if name != "flat":
                    cpu.setdefault(page, []).append(cost.cpu_ms)
            yield from report_costs(name, iter(costs))
    for page, figures in cpu.items():
        growth = figures[-1] / figures[0]
        text = " -> ".join(f"{figure:.0f}" for figure in figures) + f" ms CPU ({growth:.2f}x)"
        yield Figure(f"growth: {page}", text, "2x", growth < 2)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--flat-commits", type=int, default=50)
    parser.add_argument("--deep-series", type=int, default=2_000)
    parser.add_argument("--commits", type=int, nargs="*", default=[500, 1_700, 5_000])
    parser.add_argument("--store", nargs="*", default=[])
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--folder", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="perfci-bench-") as temporary:
        parsed = parse_arguments()
        print_figures_and_exit(measure_all(parsed, parsed.folder or Path(temporary)))
