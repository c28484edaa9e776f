"""Inject twelve causes of a slowdown, and three that are no change of code: what does an explanation say?

Run as ``python -m tools.study_explain``. Each cause is a commit of a small model's repository, in most of
them beside a second change that costs as well. What the cause accounts for is timed without any profiler:
the head against the head without it. ``--page`` writes the table into a page.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from perfci.config import load_config
from perfci.measure.open_measurement_session import create_suite_runner, prepare_session_scope
from perfci.measure.profiles.profile_commits import profile_process
from perfci.model import Commit
from perfci.runner.git_repository import GitRepository
from perfci.verdicts.explain.explain_profiles import explain_profiles
from perfci.verdicts.explain.explanation import Cause, Explanation
from tests.explain_cases import CAUSES, REFACTORING, InjectedCause, apply_edits, write_base
from tests.support.git_project import GitProject
from tools.write_study_page import describe_circumstances, replace_figures

CONFIG = """
[run]
threads = {threads}
"""

TIME_TREES = """
import contextlib, importlib.util, json, statistics, sys, time
import torch
torch.set_num_threads(1)
benchmark, *trees = sys.argv[1:]
works = []
for tree in trees:
    sys.path.insert(0, tree)
    spec = importlib.util.spec_from_file_location("suite", tree + "/benchmarks/suite.py")
    suite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    owner = suite
    for name in benchmark.split(".")[1:-1]:
        owner = getattr(owner, name)()
    make = getattr(owner, benchmark.split(".")[-1]).build_profiled_work
    works.append(make() if owner is suite else make(owner))
    sys.path.remove(tree)
    for name in [name for name in sys.modules if name.partition(".")[0] == "lm"]:
        del sys.modules[name]
phases = {}

@contextlib.contextmanager
def mark(phase):
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    spent = phases.setdefault(phase, [0.0, 0.0])
    spent[0] += time.perf_counter() - wall
    spent[1] += time.process_time() - cpu

took = [[] for _ in works]
began = time.perf_counter()
while len(took[0]) < 20 or time.perf_counter() - began < 8:
    for times, work in zip(took, works):
        phases.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        work(mark)
        whole = [time.perf_counter() - wall, time.process_time() - cpu]
        times.append({"": whole, **{name: list(spent) for name, spent in phases.items()}})
print(json.dumps([
    {name: [statistics.median(row[name][k] for row in times[3:]) for k in (0, 1)] for name in times[0]}
    for times in took
]))
"""
"""Three trees in one process, whose calls take turns: the machine is as fast for one as for the others."""

ROUNDS = 3
"""Processes in which the trees are timed without a profiler."""

MAX_SHARE_ERROR = 0.15
MIN_RIGHT = 10
WAITING = ("loader starved",)
"""Cases that are timed by the wall clock, because what they inject is waiting."""


@dataclass(frozen=True)
class Truth:
    """What part of the slowdown goes away when the cause alone is taken back, and the phase of most of it."""

    share: float
    phase: str


@dataclass(frozen=True)
class Outcome:
    """What an explanation said of a case, held against what was injected."""

    name: str
    truth: Truth | None
    explanation: Explanation
    phase: bool = False
    operator: bool = False
    line: bool = False
    seconds: float = 0.0
    notes: str = ""

    @property
    def cause(self) -> Cause | None:
        return self.explanation.causes[0] if self.explanation.causes else None

    @property
    def is_right(self) -> bool:
        if self.truth is None:
            return not self.explanation.causes
        share = self.cause.share if self.cause else 0.0
        return self.phase and self.operator and self.line and abs(share - self.truth.share) <= MAX_SHARE_ERROR


@dataclass
class Study:
    folder: Path
    outcomes: list[Outcome] = field(default_factory=list)

    def run_cause(self, case: InjectedCause) -> Outcome:
        trees = self._write_trees(case)
        truth = measure_truth(case, trees)
        profiles, seconds = profile_trees(trees["base"], trees["head"], case.benchmark)
        return judge_outcome(case, truth, explain_profiles(*profiles), seconds)

    def _write_trees(self, case: InjectedCause) -> dict[str, Path]:
        trees = {
            name: self.folder / case.name.replace(" ", "-") / name for name in ("base", "head", "without")
        }
        for name, tree in trees.items():
            write_base(tree)
            apply_edits(tree, case.side if name != "base" else ())
            apply_edits(tree, case.edits if name == "head" else ())
        return trees

    def run_innocent(
        self, name: str, benchmark: str, disturb: Callable[[], Any], threads: int = 1
    ) -> Outcome:
        folder = self.folder / name.replace(" ", "-")
        write_base(folder / "base")
        write_base(folder / "head")
        apply_edits(folder / "head", REFACTORING)
        profiles, seconds = profile_trees(
            folder / "base", folder / "head", benchmark, disturb_head=disturb, base_threads=threads
        )
        return Outcome(name, None, explain_profiles(*profiles), seconds=seconds)


def measure_truth(case: InjectedCause, trees: dict[str, Path]) -> Truth:
    """Time the trees without a profiler; each figure is the median of the processes."""
    clock = 0 if case.name in WAITING else 1
    levels = [time_trees(case.benchmark, list(trees.values())) for _ in range(ROUNDS)]

    def level(tree: int, phase: str) -> float:
        return statistics.median(rows[tree][phase][clock] for rows in levels)

    grown = {phase: level(1, phase) - level(2, phase) for phase in levels[0][1]}
    share = grown.pop("") / (level(1, "") - level(0, ""))
    return Truth(share, max(grown, key=lambda phase: grown[phase]))


def time_trees(benchmark: str, trees: Sequence[Path]) -> list[dict[str, list[float]]]:
    """Wall and CPU seconds of a call of each tree and, by their names, of its phases."""
    done = subprocess.run(
        [sys.executable, "-c", TIME_TREES, benchmark, *map(str, trees)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return list(json.loads(done.stdout.splitlines()[-1]))


def profile_trees(
    base: Path,
    head: Path,
    benchmark: str,
    *,
    disturb_head: Callable[[], Any] = contextlib.nullcontext,
    base_threads: int = 1,
) -> tuple[tuple[list[Any], list[Any]], float]:
    """Profile two trees as the commits of a repository, two processes a side."""
    began = time.monotonic()
    repository, commits = make_repository(base, head)
    profiles: dict[str, list[Any]] = {commit.sha: [] for commit in commits}
    with contextlib.ExitStack() as stack:
        prepared: dict[str, Any] = {}
        for commit, threads in zip(commits, (base_threads, 1), strict=True):
            (repository.root / "perfci.toml").write_text(CONFIG.format(threads=threads))
            config = load_config(repository.root, {}, project="study")
            runner = stack.enter_context(create_suite_runner(repository, config, None, smoke=False))
            scope = prepare_session_scope(runner, commits, benchmark, lambda line: None)
            prepared[commit.sha] = runner, scope.cells[0]
        for number, commit in enumerate((commits[0], commits[1], commits[1], commits[0])):
            runner, cell = prepared[commit.sha]
            with disturb_head() if commit is commits[1] else contextlib.nullcontext():
                process = profile_process(runner, commit, cell, base.parent / f"profile-{number}")
            profiles[commit.sha].append(process.profile)
    return (profiles[commits[0].sha], profiles[commits[1].sha]), time.monotonic() - began


def make_repository(base: Path, head: Path) -> tuple[GitRepository, list[Commit]]:
    project = GitProject(base.parent / "repository")
    shas = []
    for tree in (base, head):
        for file in sorted(tree.rglob("*.py")):
            project.write(str(file.relative_to(tree)), file.read_text())
        shas.append(project.commit(tree.name))
    repository = GitRepository(project.folder)
    return repository, [repository.read_commit(sha) for sha in shas]


def judge_outcome(case: InjectedCause, truth: Truth, explanation: Explanation, seconds: float) -> Outcome:
    cause = explanation.causes[0] if explanation.causes else None
    if cause is None:
        return Outcome(case.name, truth, explanation, seconds=seconds)
    named = [cause.line, *cause.changed]
    return Outcome(
        case.name,
        truth,
        explanation,
        phase=cause.phase == truth.phase,
        operator=not case.operators or cause.operator in case.operators,
        line=any(line.text.startswith(case.lines) for line in named),
        seconds=seconds,
    )


BURN = "while True: sum(k * k for k in range(10_000))"

POLLUTE = """
import numpy as np
block = np.ones(64_000_000)
while True:
    block += 1.0
"""


@contextlib.contextmanager
def run_beside(code: str, processes: int) -> Iterator[None]:
    """Run other programs while a process is profiled."""
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(processes)]
    time.sleep(1.0)
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def list_innocents(study: Study) -> dict[str, Callable[[], Outcome]]:
    training = "suite.Training.measure_training"
    return {
        "busy neighbour": lambda: study.run_innocent(
            "busy neighbour", training, lambda: run_beside(BURN, 2 * (os.cpu_count() or 1))
        ),
        "other CPU": lambda: study.run_innocent("other CPU", training, contextlib.nullcontext, threads=2),
        "colder cache": lambda: study.run_innocent("colder cache", training, lambda: run_beside(POLLUTE, 2)),
    }


def format_row(outcome: Outcome) -> str:
    cause, explanation = outcome.cause, outcome.explanation
    change = f"{explanation.change:+.0%}"
    truth = "none" if outcome.truth is None else f"{outcome.truth.share:.0%} in {outcome.truth.phase}"
    if cause is None:
        cells = [str(explanation.conclusion), "", "", ""]
    else:
        place = f"`{cause.line.path}:{cause.line.number}`" + "".join(
            f", changed `{line.path}:{line.number}`" for line in cause.changed
        )
        cells = [
            mark(cause.phase, outcome.phase),
            mark(f"`{cause.operator}`" if cause.operator else "none", outcome.operator),
            mark(place, outcome.line),
            f"{cause.share:.0%} [{cause.share_lo:.0%}, {cause.share_hi:.0%}]",
        ]
    right = "yes" if outcome.is_right else "**no**"
    return f"| {outcome.name} | {change} | {' | '.join(cells)} | {truth} | {right} |".replace("%", " %")


def mark(text: str, right: bool) -> str:
    return text if right else f"{text} (wrong)"


HEADING = [
    "| cause | slowdown in the profile | phase | operator | line | share claimed | truth | right |",
    "|---|---|---|---|---|---|---|---|",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--keep", type=Path, help="keep the repositories and profiles in this folder")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        study = Study(options.keep or Path(folder))
        runs: dict[str, Callable[[], Outcome]] = {
            **{case.name: partial(study.run_cause, case) for case in CAUSES},
            **list_innocents(study),
        }
        for name, run in runs.items():
            if options.only in name:
                outcome = run()
                study.outcomes.append(outcome)
                print(format_row(outcome), f"{outcome.seconds:.0f} s", flush=True)
    outcomes = study.outcomes
    causes = [outcome for outcome in outcomes if outcome.truth is not None]
    innocents = [outcome for outcome in outcomes if outcome.truth is None]
    right = sum(outcome.is_right for outcome in causes)
    quiet = sum(outcome.is_right for outcome in innocents)
    summary = (
        f"{right} of {len(causes)} causes right in phase, operator, line and share (15 points); "
        f"{quiet} of {len(innocents)} innocent slowdowns without a line."
    )
    print(summary)
    if options.page:
        table = "\n".join([*HEADING, *map(format_row, outcomes)])
        replace_figures(options.page, f"{describe_circumstances(load)}\n\n{table}\n\n{summary}")
    raise SystemExit(right < min(MIN_RIGHT, len(causes)) or quiet < len(innocents))


if __name__ == "__main__":
    main()
