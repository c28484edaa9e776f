"""Measure how fast changes are found and pairs are judged, beside the detectors of others on the same series.

Run as ``make bench``, or ``python -m tools.bench_judge``. The limits are for two free cores; what is
measured uses one of them, so its CPU time is held to them: on a busy machine it waits, but computes no
longer.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import numpy as np

from perfci.formats.json_filters.judge_cases import judge_cases_json
from perfci.project_policies import ProjectPolicies
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.stats.incremental_segmentation import (
    SegmentedSeries,
    detect_change_points_in_many,
    update_segmentations,
)
from perfci.store import open_store
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.writes import find_or_add_rows
from tests.support.builders import NOON, PROJECT
from tools.fill_store import add_commits
from tools.print_bench_figures import Figure, print_figures_and_exit
from tools.study_history import KINDS, Detector, Logs, load_peer_detectors, simulate_change_free

SERIES, POINTS = 10_000, 500
CASES, PROCESSES, SAMPLES = 1_000, 8, 25
SCRATCH_S, APPEND_S, JUDGE_S = 6.0, 2.0, 5.0
COMMITS, TOUCHED, LOOKS, LOOK_S = 200, 50, 5, 0.3
PEER_SERIES = 22
"""Series that others look at: two of every kind of noise. They are slower, and one series takes as long as
the next.
"""
SEED = 4


@dataclass(frozen=True)
class Took:
    cpu_s: float
    wall_s: float

    def held(self, name: str, limit: float) -> Figure:
        return Figure(
            name, f"{self.cpu_s:.2f} s of CPU in {self.wall_s:.2f} s", f"{limit:g} s", self.cpu_s <= limit
        )


Result = TypeVar("Result")


def simulate_histories(series: int) -> list[Logs]:
    """Every kind of noise of the study in turn; every other history has a step of 6 to 20 % somewhere."""
    rng = np.random.default_rng(SEED)
    each = -(-series // len(KINDS))
    lines = np.stack([simulate_change_free(kind, rng, each, POINTS) for kind in KINDS], axis=1).reshape(
        -1, POINTS
    )[:series]
    at = np.where(np.arange(series) % 2, rng.integers(50, POINTS - 50, series), POINTS)
    return list(lines * (1 + (np.arange(POINTS) >= at[:, None]) * rng.uniform(0.06, 0.20, (series, 1))))


def measure_detection(series: int) -> Iterator[Figure]:
    """From nothing, then one more point on every series; then the same series by those of others."""
    lines = simulate_histories(series)
    whole, scratch = time_work(lambda: detect_change_points_in_many(lines))
    yield scratch.held(f"{series:,} series of {POINTS} points from nothing", SCRATCH_S * series / SERIES)
    segmentations = update_segmentations(
        [SegmentedSeries(np.empty(0))] * series, [line[:-1] for line in lines]
    )
    gc.freeze()  # a service that holds so many lines has them settled
    grown, append = time_work(lambda: update_segmentations(segmentations, lines))
    yield append.held("one more point on each", APPEND_S * series / SERIES)
    equal = [line.change_points for line in grown] == whole
    yield Figure("both tell the same", "yes" if equal else "no", "yes", equal)
    for name, peer in load_peer_detectors().items():
        ours_s = scratch.cpu_s / series
        yield (
            Figure(name, peer)
            if isinstance(peer, str)
            else compare_with_peer(name, peer, lines[:PEER_SERIES], ours_s)
        )


def time_work(work: Callable[[], Result]) -> tuple[Result, Took]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, Took(time.process_time() - cpu, time.perf_counter() - wall)


def compare_with_peer(name: str, detect: Detector, lines: list[Logs], ours_s: float) -> Figure:
    _, took = time_work(lambda: [detect(line) for line in lines])
    each_s = took.cpu_s / len(lines)
    ratio = f"{each_s / ours_s:.1f} times ours of {1000 * ours_s:.2f} ms"
    return Figure(
        f"{name} from nothing", f"{1000 * each_s:.2f} ms a series, {ratio} ({len(lines)} of the same series)"
    )


def measure_pair_judging(cases: int) -> Iterator[Figure]:
    """Comparisons of a pull request, as `perfci judge --json` is asked for them."""
    rng = np.random.default_rng(SEED)
    sides = np.exp(
        rng.normal(0, 0.01, (2, cases, PROCESSES, SAMPLES)) + rng.normal(0, 0.02, (2, cases, PROCESSES, 1))
    )
    document = {
        "op": "compare",
        "cases": [
            {"id": k, "base": base.tolist(), "head": head.tolist()}
            for k, (base, head) in enumerate(zip(*sides, strict=True))
        ],
    }
    answer, took = time_work(lambda: judge_cases_json(document))
    assert len(answer["results"]) == cases
    yield took.held(f"{cases:,} comparisons of {PROCESSES} x {SAMPLES} samples", JUDGE_S * cases / CASES)


def measure_judge_process(commits: int, series: int) -> Iterator[Figure]:
    """What the judge process does after one more run: read, find, write, and what follows for incidents."""
    took = []
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(f"sqlite:///{folder}/db", create=True)) as store,
    ):
        add_commits(store, range(commits), series)
        worker = JudgeWorker(
            store, lambda project: ProjectPolicies(), clock=lambda: NOON + timedelta(days=365)
        )
        for number in range(commits, commits + LOOKS):
            add_commits(store, [number], series)
            with store.begin() as tx:
                project_id = find_or_add_rows.ensure_project_id(tx, PROJECT)
                enqueue_work(tx, project_id, "judge", [f"{number}-0"], NOON)
            done, item = time_work(worker.run_once)
            assert done == 1
            took.append(item)
    middle = sorted(took, key=lambda entry: entry.cpu_s)[LOOKS // 2]
    yield middle.held(f"a look after one more run of {series} series with {commits} commits", LOOK_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=SERIES, help="fewer lower the limits alike")
    chosen = parser.parse_args()
    gc.collect()
    gc.freeze()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print_figures_and_exit(
        itertools.chain(
            measure_judge_process(COMMITS, TOUCHED),
            measure_detection(chosen.series),
            measure_pair_judging(CASES),
        )
    )


if __name__ == "__main__":
    main()
