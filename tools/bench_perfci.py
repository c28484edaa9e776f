"""Measure perfci itself: against asv on the same suite, against the work its cells do, and against fixed
limits.

Run as ``make bench``. Both tools run in one go on one machine, so the ratios hold where absolute times do
not.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import math
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.support.git_project import ISOLATED, GitProject
from tools.print_bench_figures import Figure, print_figures_and_exit

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
ASV_SUITE = Path(__file__).parents[1] / "tests" / "asv_suite"
EMPTY_CELLS, EMPTY_ROUNDS = 50, 8

EMPTY_SUITE = f"""
    import torch

    class Empty:
        params = [list(range({EMPTY_CELLS}))]
        def track_nothing(self, n):
            return 1
"""

ASV_CONF = {
    "version": 1,
    "project": "smoke",
    "environment_type": "virtualenv",
    "repo": ".",
    "branches": ["main"],
    "benchmark_dir": "benchmarks",
    "results_dir": "asv-results",
    "env_dir": "asv-env",
    "html_dir": "asv-html",
}


@dataclass(frozen=True)
class Timed:
    wall_s: float
    work_s: float
    processes: int
    samples: int


def measure_smoke_suite(folder: Path) -> Iterator[Figure]:
    """A suite of plain asv benchmarks, once under each tool: one process per cell."""
    project = GitProject(folder)
    shutil.copytree(ASV_SUITE, folder / "benchmarks", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "asv.conf.json").write_text(json.dumps(ASV_CONF))
    (folder / "perfci.toml").write_text('[project]\nname = "smoke"\n')
    project.commit("An asv suite")
    ours, theirs = run_under_perfci(project), run_under_asv(project)
    overhead, their_overhead = ours.wall_s - ours.work_s, theirs.wall_s - ours.work_s
    equal = (ours.processes, ours.samples) == (theirs.processes, theirs.samples)
    yield Figure("cells' own work", f"{ours.work_s:.1f} s")
    yield Figure(
        "smoke suite under perfci", f"{ours.wall_s:.1f} s, {ours.processes} processes, {ours.samples} samples"
    )
    yield Figure(
        "smoke suite under asv",
        f"{theirs.wall_s:.1f} s, {theirs.processes} processes, {theirs.samples} samples",
    )
    yield Figure("the same processes and samples", "yes" if equal else "no", "yes", equal)
    ratio = overhead / their_overhead
    yield Figure(
        "overhead against asv's",
        f"{overhead:.1f} s / {their_overhead:.1f} s = {ratio:.3f}",
        "0.05",
        ratio <= 0.05,
    )
    yield Figure("total against asv's", f"{ours.wall_s / theirs.wall_s:.3f}")
    ratio = ours.wall_s / ours.work_s
    yield Figure("total against the cells' own work", f"{ratio:.3f}", "1.15", ratio <= 1.15)
    yield Figure("whole smoke suite", f"{ours.wall_s:.1f} s", "180 s", ours.wall_s <= 180)


def measure_reference_suites(folder: Path) -> Iterator[Figure]:
    """Every cell of ``benchmarks/`` at its smoke size, once: measured, or skipped with a reason."""
    project = GitProject(folder)
    shutil.copytree(BENCHMARKS, folder / "benchmarks", ignore=shutil.ignore_patterns("__pycache__", ".asv"))
    project.commit("The reference suites")
    text = project.folder / "told.json"
    command = [sys.executable, "-m", "perfci.cli", "run", "--suite", "full", "--smoke"]
    wall_s = time_command([*command, "--rounds", "1", "--json", str(text)], project)
    statuses = json.loads(text.read_text())["statuses"]
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    yield Figure("reference suites at smoke sizes", f"{wall_s:.1f} s", "180 s", wall_s <= 180)
    yield Figure("their cells", counts, "ok or skipped", set(statuses) <= {"ok", "skipped"})


def run_under_perfci(project: GitProject) -> Timed:
    text = project.folder / "told.json"
    command = [sys.executable, "-m", "perfci.cli", "run", "--smoke", "--rounds", "1", "--json", str(text)]
    wall_s = time_command(command, project)
    answer = json.loads(text.read_text())
    exported = run_command([sys.executable, "-m", "perfci.cli", "export", "--format", "csv"], project)
    rows = [row for row in csv.DictReader(io.StringIO(exported)) if not row["metric"].startswith("cpu_")]
    samples = sum(int(row["samples"] or 0) for row in rows)
    return Timed(wall_s, answer["work_s"], answer["processes"], samples)


def run_under_asv(project: GitProject) -> Timed:
    """asv as it comes, told only to store samples and to start each benchmark once."""
    asv = [sys.executable, "-m", "asv"]
    run_command([*asv, "machine", "--yes"], project)
    sha = project.git("rev-parse", "HEAD")
    command = [*asv, "run", "-E", f"existing:{sys.executable}", "--set-commit-hash", sha, "--no-pull"]
    wall_s = time_command([*command, "--record-samples", "-a", "rounds=1"], project)
    (result,) = (path for path in project.folder.glob("asv-results/*/*.json") if path.name != "machine.json")
    document = json.loads(result.read_text())
    values, samples = document["result_columns"].index("result"), document["result_columns"].index("samples")
    rows = document["results"].values()
    cells = [cell for row in rows for cell in row[values]]
    taken = [cell for row in rows if len(row) > samples and row[samples] for cell in row[samples] if cell]
    without = sum(cell is not None and not math.isnan(cell) for cell in cells) - len(taken)
    return Timed(wall_s, 0.0, len(cells), sum(map(len, taken)) + without)


def measure_empty_process(folder: Path) -> Iterator[Figure]:
    """From one process that measures nothing to the next: fork, run, end and committed row. The parent has
    torch.
    """
    project = GitProject(folder)
    project.commit("Nothing", benchmarks__suite=EMPTY_SUITE)
    run_command([sys.executable, "-m", "perfci.cli", "run", "--rounds", str(EMPTY_ROUNDS)], project)
    with closing(sqlite3.connect(folder / ".perfci" / "perfci.db")) as database:
        rows = database.execute("select round, started_at from processes order by started_at").fetchall()
    gaps = [after - before for (round_, before), (same, after) in itertools.pairwise(rows) if round_ == same]
    median, worst = statistics.median(gaps), statistics.quantiles(gaps, n=20)[-1]
    text = f"{median:.0f} ms (95 % within {worst:.0f} ms, {len(rows)} processes)"
    yield Figure("an empty process with its committed row", text, "25 ms", median <= 25)


def measure_start_up(folder: Path) -> Iterator[Figure]:
    project = GitProject(folder)
    best_s = min(time_command([sys.executable, "-m", "perfci.cli", "--help"], project) for _ in range(5))
    yield Figure("perfci --help", f"{best_s:.2f} s", "0.3 s", best_s <= 0.3)


def time_command(command: list[str], project: GitProject) -> float:
    begin = time.monotonic()
    run_command(command, project)
    return time.monotonic() - begin


def run_command(command: list[str], project: GitProject) -> str:
    env = {**os.environ, **ISOLATED, "HOME": str(project.folder), "PERFCI_SMOKE": "1"}
    done = subprocess.run(command, cwd=project.folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(
            f"{' '.join(command)} exited with {done.returncode}:\n"
            f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        )
    return done.stdout


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts = (measure_start_up, measure_empty_process, measure_smoke_suite, measure_reference_suites)
        print_figures_and_exit(figure for part in parts for figure in part(Path(folder) / part.__name__))


if __name__ == "__main__":
    main()
