"""Draw the pictures of docs/verdicts.md from real cases: ``python -m tools.draw_verdicts [--measure]``.

``--measure`` makes small repositories, measures them with the commands a user would type (a few minutes)
and keeps the level of every process in ``docs/plots/cases.json``. Without it, the pictures are drawn again
from there: the verdicts in them are always those that the judge gives today. ``--other-python`` names an
interpreter of the same line (3.11.2 beside 3.11.7) that has asv_runner; without one the history with two
environments is left as it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfci.model import (
    Benchmark,
    Clock,
    Commit,
    Environment,
    Machine,
    Metric,
    Point,
    Process,
    Role,
    Series,
    Stage,
    Status,
    Verdict,
    VerdictKind,
    freeze_named_values,
)
from perfci.report.charts.svg_charts import render_trend_chart
from perfci.report.series_trend import Trend, build_trend
from perfci.store import open_store, verdicts_and_change_points
from perfci.store.queries import measured_samples, runs_and_sessions, series_search
from perfci.store.queries.query_records import MeasuredProcess
from perfci.verdicts.compare.pairwise_verdict import interim_analysis
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.process_levels import process_level
from perfci.verdicts.usable_processes import select_usable_processes
from tests.support.git_project import GitProject
from tests.support.level_histories import find_change_points
from tools.pair_charts import Column, draw_intervals_svg, draw_pairs_svg

PLOTS = Path(__file__).parent.parent / "docs" / "plots"
CASES = PLOTS / "cases.json"

STEP = """
def step(n=40_000):
    total = 0
    for i in range(n):
        total += i * i
    return total
"""
SLOWER = STEP.replace("range(n)", "range(n + n // 8)")
MUCH_SLOWER = STEP.replace("range(n)", "range(n + n // 3)")

SUITE = """
import functools
import os
import random

import work


@functools.cache
def drawn(kind):
    # once in every process
    if kind == "states":
        return 40_000 if os.urandom(1)[0] % 2 else 50_000  # as a cache that is hit in every other process
    return int(40_000 * random.SystemRandom().lognormvariate(0, 0.1))  # as data that differs in size


def time_step():
    work.step()


class TwoStates:
    def setup(self):
        self.n = drawn("states")

    def time_step(self):
        work.step(self.n)


class Uneven:
    def setup(self):
        self.n = drawn("sizes")

    def time_step(self):
        work.step(self.n)
"""

COMPARED = {
    "regression": ("slower", "cases.time_step"),
    "unchanged": ("same", "cases.time_step"),
    "inconclusive": ("same", "cases.Uneven.time_step"),
    "two-states": ("same", "cases.TwoStates.time_step"),
}
"""Name of a picture -> which commit is compared with the first, and the benchmark that is drawn."""

LENGTH, STEPS_AT, SECOND_PYTHON_AT, ROUNDS = 24, 14, 12, "9"


# ------------------------------------------------------------------ measuring


def measure_cases(cases: dict[str, Any], parts: Sequence[str], other_python: str) -> dict[str, Any]:
    """The cases with the named parts of them taken again."""
    histories = dict(cases.get("histories", {}))
    with tempfile.TemporaryDirectory() as folder:
        if "comparisons" in parts:
            cases = cases | {"comparisons": measure_comparisons(Path(folder) / "compared")}
        if "history" in parts:
            histories["change-point"] = measure_history(Path(folder) / "line")
        if "environments" in parts and other_python:
            histories["environment"] = measure_environments(Path(folder) / "two", other_python)
    return cases | {"histories": histories, "measured_at": datetime.now(UTC).date().isoformat()}


def measure_comparisons(folder: Path) -> dict[str, Any]:
    project = create_project(folder)
    shas = {"base": project.commit("Sum the squares", work=STEP)}
    shas["same"] = project.commit("Say what it does", work=STEP + "# Sums squares.\n")
    shas["slower"] = project.commit("Sum an eighth more", work=SLOWER)
    result: dict[str, Any] = {}
    for head in ("same", "slower"):
        run_perfci(folder, "compare", shas["base"], shas[head])
    with (
        closing(open_store(f"sqlite:///{folder}/.perfci/perfci.db", create=False)) as store,
        store.read() as tx,
    ):
        sessions = {session.uid: session.kind for session in runs_and_sessions.load_sessions(tx, folder.name)}
        for name, (head, cell) in COMPARED.items():
            for uid, kind in sorted(sessions.items(), key=lambda item: item[1] == "confirm"):
                rows = [
                    row for row in measured_samples.load_session_processes(tx, uid) if row.series.cell == cell
                ]
                sides = [
                    read_pair_levels(rows, shas["base"], Role.BASE),
                    read_pair_levels(rows, shas[head], Role.HEAD),
                ]
                if all(sides):
                    result[name] = result.get(name, {}) | {kind: sides}
    return result


def read_pair_levels(rows: Sequence[MeasuredProcess], sha: str, role: Role) -> list[float]:
    """One level for each pair, of the CPU time of its process."""
    mine = [row.process for row in rows if row.sha == sha and row.series.metric.name == "cpu_time"]
    good = sorted(
        select_usable_processes([process for process in mine if process.role is role]),
        key=lambda item: item.pair or 0,
    )
    return [process_level(process) for process in good]


def measure_history(folder: Path) -> dict[str, Any]:
    project = create_project(folder)
    shas = [
        project.commit(f"Change number {k}", work=write_step_source(k, slower_at=STEPS_AT))
        for k in range(LENGTH)
    ]
    run_perfci(folder, "run", f"{shas[0]}..{shas[-1]}", "--bench", "^cases.time_step", "--rounds", ROUNDS)
    return read_history(folder)


def measure_environments(folder: Path, other_python: str) -> dict[str, Any]:
    """Ten commits by one interpreter, ten by another, and fresh pairs by the second where they meet."""
    project = create_project(folder)
    shas = [
        project.commit(f"Change number {k}", work=write_step_source(k, slower_at=LENGTH))
        for k in range(LENGTH)
    ]
    before, first = shas[SECOND_PYTHON_AT - 1], shas[SECOND_PYTHON_AT]
    only = ("--bench", "^cases.time_step")
    (folder / "perfci.toml").write_text(f'[environment]\npython = "{other_python}"\npreload = []\n')
    run_perfci(folder, "run", f"{shas[0]}..{before}", *only, "--rounds", ROUNDS)
    (folder / "perfci.toml").write_text("[environment]\npreload = []\n[judge]\nmax_pairs = 40\n")
    run_perfci(folder, "run", f"{before}..{shas[-1]}", *only, "--rounds", ROUNDS)
    run_perfci(folder, "compare", before, first, *only)
    return read_history(folder)


def write_step_source(number: int, *, slower_at: int) -> str:
    return (MUCH_SLOWER if number >= slower_at else STEP) + f"# Change {number}.\n"


def create_project(folder: Path) -> GitProject:
    project = GitProject(folder)
    project.write("benchmarks/__init__.py", "")
    project.write("benchmarks/cases.py", SUITE)
    project.write("perfci.toml", "[environment]\npreload = []\n")
    return project


def run_perfci(folder: Path, *arguments: str) -> None:
    """Exit code 1 is a regression that was found."""
    done = subprocess.run([sys.executable, "-m", "perfci.cli", *arguments], cwd=folder)
    assert done.returncode in (0, 1), arguments


def read_history(folder: Path) -> dict[str, Any]:
    with (
        closing(open_store(f"sqlite:///{folder}/.perfci/perfci.db", create=False)) as store,
        store.read() as tx,
    ):
        (record,) = [
            each_series
            for each_series in series_search.search_series(tx, folder.name)
            if each_series.series.cell == "cases.time_step" and each_series.series.metric.name == "cpu_time"
        ]
        points = measured_samples.load_history(tx, record.id)
        in_pairs = {
            session.uid
            for session in runs_and_sessions.load_sessions(tx, folder.name)
            if session.kind in ("compare", "confirm")
        }
        verdict_records = verdicts_and_change_points.load_verdict_records(
            tx, folder.name, series_id=record.id
        )
    return {
        "points": [
            {
                "sha": point.commit.sha,
                "subject": point.commit.subject,
                "python": dict(point.environment.values)["python"],
                "levels": [process_level(process) for process in select_usable_processes(point.processes)],
            }
            for point in points
        ],
        "on fresh pairs": [
            {"base": verdict.base, "head": verdict.head, "kind": verdict.kind.value, "ratio": verdict.ratio}
            for verdict in (record.verdict for record in verdict_records if record.session_uid in in_pairs)
        ],
    }


# ------------------------------------------------------------------ what is drawn


MACHINE = Machine(name="docs")
WORDS = {"regression": "slower by an eighth", "unchanged": "only a comment", "inconclusive": "uneven data"}


PARTS = ["comparisons", "history", "environments"]


def main(arguments: argparse.Namespace) -> None:
    if arguments.measure is not None:
        existing = json.loads(CASES.read_text()) if CASES.exists() else {}
        outcomes = measure_cases(existing, arguments.measure or PARTS, arguments.other_python)
        PLOTS.mkdir(parents=True, exist_ok=True)
        CASES.write_text(json.dumps(outcomes, indent=1) + "\n")
    for name, svg in draw_pictures(json.loads(CASES.read_text())).items():
        (PLOTS / f"{name}.svg").write_text(svg)


def draw_pictures(cases: dict[str, Any]) -> dict[str, str]:
    """Every picture by its name."""
    comparisons = {name: Comparison.of(name, sides) for name, sides in cases["comparisons"].items()}
    pairs_svgs = {name: draw_pairs_svg(*item.levels, item.verdict) for name, item in comparisons.items()}
    pairs_svgs["verdicts"] = draw_intervals_svg(
        [Column(label, comparisons[name].verdict) for name, label in WORDS.items()],
        title="Intervals and verdicts",
    )
    pairs_svgs["looks"] = draw_intervals_svg(
        build_look_columns(comparisons["inconclusive"]), title="What each look saw"
    )
    return pairs_svgs | {
        name: render_trend_chart(judge_trend(item), standalone=True)
        for name, item in cases["histories"].items()
    }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The pairs that decided, as they were measured, and what the judge says of them today."""

    levels: tuple[list[float], list[float]]
    verdict: Verdict
    stage: Stage

    @classmethod
    def of(cls, name: str, sessions: dict[str, list[list[float]]]) -> Comparison:
        stage = Stage.CONFIRMATION if "confirm" in sessions else Stage.SCREENING
        base, head = sessions["confirm" if "confirm" in sessions else "compare"]
        return cls((base, head), judge_levels(COMPARED[name][1], base, head, stage), stage)


def judge_levels(cell: str, base: Sequence[float], head: Sequence[float], stage: Stage) -> Verdict:
    sides = [
        [Process(k, role, samples=(level,), clock=Clock.CPU, pair=k) for k, level in enumerate(levels)]
        for role, levels in ((Role.BASE, base), (Role.HEAD, head))
    ]
    return interim_analysis(build_series(cell), "base", "head", *sides, stage=stage).verdict


def build_look_columns(comparison: Comparison) -> list[Column]:
    """The interval at every planned look, up to the first that knows enough."""
    base, head = comparison.levels
    cell, result = comparison.verdict.series.benchmark.name, list[Column]()
    for pairs in (pairs for pairs in Rule().looks if pairs <= len(base)):
        result.append(
            Column(f"{pairs} pairs", judge_levels(cell, base[:pairs], head[:pairs], comparison.stage))
        )
        if result[-1].verdict.kind is not VerdictKind.INCONCLUSIVE:
            break
    return result


def judge_trend(history: dict[str, Any]) -> Trend:
    """The history with the change points that are found in it today, and what fresh pairs said of them."""
    points = [build_point(place, item) for place, item in enumerate(history["points"])]
    mine = build_series("cases.time_step")
    verdicts = [
        Verdict(
            VerdictKind(point["kind"]), Stage.CONFIRMATION, mine, point["base"], point["head"], point["ratio"]
        )
        for point in history["on fresh pairs"]
    ]
    return build_trend(mine, points, find_change_points(mine, points), verdicts)


def build_point(place: int, item: dict[str, Any]) -> Point:
    commit = Commit(item["sha"], item["subject"], position=place)
    levels = [Process(k, samples=(level,), clock=Clock.CPU) for k, level in enumerate(item["levels"])]
    return Point(
        commit,
        Status.OK,
        tuple(levels),
        environment=Environment(freeze_named_values({"python": item["python"]})),
    )


def build_series(cell: str) -> Series:
    return Series(Benchmark(cell, "1"), (), Metric("cpu_time", "seconds"), MACHINE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", nargs="*", choices=PARTS)
    parser.add_argument("--other-python", default="")
    main(parser.parse_args())
