"""Compare real commits many times: a training step with itself, and with a slowdown of known size planted
in it.

Run as ``python -m tools.study_compare``; each comparison is the command a user types, with a store of its
own, so that none knows what the others found. Some run beside two CPU-hungry neighbours. It prints the
table of docs/studies/compare-study.md and fails when an equal pair of commits is called a regression, or
when +8 % is called too rarely beside neighbours. What was compared is kept in a file: a run that was cut
off goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from scipy.stats import beta

from perfci.number_format import format_percent, format_signed_percent
from perfci.store import open_store
from perfci.store.queries.measured_samples import load_session_processes
from perfci.store.queries.runs_and_sessions import load_sessions
from tests.support.git_project import ISOLATED, GitProject
from tools.study_demo import NEIGHBOUR
from tools.write_study_page import describe_circumstances, replace_figures

PLANTED = (0.03, 0.05, 0.08, 0.10)
QUIET, LOADED = "quiet", "two neighbours"
MOST_PAIRS = {QUIET: 20, LOADED: 40}
READINGS = {
    QUIET: 400,
    LOADED: 4000,
}  # neighbours come and go within half a minute: beside them for that long
CALLED_BESIDE_NEIGHBOURS = 0.9
PROJECT = "step"
MANY_TURNS = 1000  # a tenth of the step or so

STEP = """
import torch
from torch import nn

EXTRA = {extra}


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.inputs = torch.randn(32, 64)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.inputs).square().mean().backward()
        self.optimizer.step()
        self.loop(EXTRA)

    def loop(self, times):
        total = 0
        for number in range(times):
            total += number
"""

SUITE = """
from trainer import Trainer

trainer = Trainer()


def time_step():
    trainer.step()
"""
"""Without a setup: asv would build the model anew before every call, and time first steps only."""


@dataclass(frozen=True)
class Trial:
    """One comparison: what was planted, as a ratio minus one, and what was said of it."""

    load: str
    planted: float
    number: int
    kind: str
    ratio: float | None
    lo: float | None
    hi: float | None
    pairs: int
    seconds: float
    exit_code: int

    @property
    def key(self) -> tuple[str, float, int]:
        return self.load, self.planted, self.number


# ------------------------------------------------------------------ what is compared


def create_repository(folder: Path, readings: int) -> tuple[GitProject, dict[float, str]]:
    """A training step on main, and one commit on top of it per planted slowdown; its sha by what was
    planted.
    """
    project = GitProject(folder)
    project.write("benchmarks/step.py", SUITE)
    shas = {0.0: project.commit("A training step", trainer=STEP.format(extra=0))}
    for share, times in calibrate_slowdowns(readings):
        project.git("checkout", "--quiet", "--detach", shas[0.0])
        shas[share] = project.commit(f"{times} additions more", trainer=STEP.format(extra=times))
    project.git("checkout", "--quiet", "main")
    return project, shas


def calibrate_slowdowns(readings: int) -> Iterator[tuple[float, int]]:
    """How often the loop has to turn to add so much to the step here and now: with many turns and without,
    in turns.

    Neighbours swell a step that waits for memory more than a loop that does not: beside them 8 % is another
    loop.
    """
    torch.set_num_threads(1)
    plain, longer = build_trainer(0), build_trainer(MANY_TURNS)
    ratios = [time_cpu_seconds(longer.step, 5) / time_cpu_seconds(plain.step, 5) for _ in range(readings)]
    share_of_a_turn = (statistics.median(ratios) - 1) / MANY_TURNS
    for share in PLANTED:
        yield share, round(share / share_of_a_turn)


def build_trainer(extra: int) -> Any:
    space: dict[str, Any] = {}
    exec(STEP.format(extra=extra), space)
    return space["Trainer"]()


def time_cpu_seconds(function: object, times: int) -> float:
    begin = time.process_time()
    for _ in range(times):
        function()  # type: ignore[operator]
    return (time.process_time() - begin) / times


def run_comparison(
    project: GitProject, base: str, head: str, load: str, planted: float, number: int
) -> Trial:
    """One comparison from nothing, as a user would make it."""
    with tempfile.TemporaryDirectory() as scratch:
        text, database = Path(scratch) / "told.json", f"sqlite:///{scratch}/perfci.db"
        command = [
            sys.executable,
            "-m",
            "perfci.cli",
            "compare",
            base,
            head,
            "--db",
            database,
            "--json",
            str(text),
        ]
        env = {**os.environ, **ISOLATED, "PERFCI_LOCK": str(project.folder / "lock")}
        begin = time.monotonic()
        done = subprocess.run(
            command, cwd=project.folder, env=env, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - begin
        if not text.exists():
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        (verdict,) = json.loads(text.read_text())["verdicts"]
        bounds = verdict["interval"] or {"lo": None, "hi": None}
        return Trial(
            load,
            planted,
            number,
            verdict["kind"],
            verdict["ratio"],
            bounds["lo"],
            bounds["hi"],
            count_measured_pairs(database),
            seconds,
            done.returncode,
        )


def count_measured_pairs(database: str) -> int:
    """All pairs that were measured: those of the looks and the fresh ones."""
    with closing(open_store(database, create=False)) as store, store.read() as tx:
        rows = [
            row for session in load_sessions(tx, PROJECT) for row in load_session_processes(tx, session.uid)
        ]
    processes = {(row.sha, row.process.role, row.process.pair, row.process.started_at) for row in rows}
    return len(processes) // 2


@contextmanager
def busy_neighbours(count: int) -> Iterator[None]:
    there = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(count)]
    try:
        yield
    finally:
        for item in there:
            item.kill()
            item.wait()


# ------------------------------------------------------------------ what came out

HEADINGS = (
    "machine",
    "planted",
    "comparisons",
    "regression",
    "inconclusive",
    "unchanged",
    "improvement",
    "median estimate",
    "interval holds it",
    "pairs: median",
    "mean",
    "most",
    "time each",
)


def format_table(trials: Sequence[Trial]) -> str:
    groups: dict[tuple[str, float], list[Trial]] = {}
    for each_trial in sorted(trials, key=lambda trial: (trial.load != QUIET, trial.planted)):
        groups.setdefault((each_trial.load, each_trial.planted), []).append(each_trial)
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    return "\n".join([*lines, *(f"| {' | '.join(format_row(group))} |" for group in groups.values())])


def format_row(group: Sequence[Trial]) -> tuple[str, ...]:
    first, count = group[0], Counter(trial.kind for trial in group)
    pairs = [trial.pairs for trial in group]
    values = [trial for trial in group if trial.ratio and trial.lo and trial.hi]
    middle = statistics.median(value.ratio for value in values if value.ratio)
    held = sum((value.lo or 0) <= 1 + first.planted <= (value.hi or 0) for value in values)
    return (
        first.load,
        format_signed_percent(first.planted) if first.planted else "nothing (A/A)",
        str(len(group)),
        *(str(count[kind]) for kind in ("regression", "inconclusive", "unchanged", "improvement")),
        format_signed_percent(middle - 1),
        format_percent(held / len(values)),
        f"{statistics.median(pairs):g}",
        f"{statistics.mean(pairs):.1f}",
        str(max(pairs)),
        f"{statistics.mean(trial.seconds for trial in group):.1f} s",
    )


def check_limits(trials: Sequence[Trial]) -> tuple[list[str], bool]:
    """The figures that are held to a limit, one sentence each, and whether all of them hold."""
    equal = [trial for trial in trials if not trial.planted]
    wrong = sum(item.kind == "regression" for item in equal)
    limit = beta.ppf(0.95, wrong + 1, len(equal) - wrong) if equal else 1.0
    messages = [
        f"{wrong} of {len(equal)} comparisons of a commit with itself were called a regression: with 95 % "
        f"confidence no more than {format_percent(float(limit))} of such would be."
    ]
    beside = [trial for trial in trials if trial.load == LOADED and trial.planted == 0.08]
    called = [item for item in beside if item.kind == "regression" and item.pairs <= 2 * MOST_PAIRS[LOADED]]
    if beside:
        messages.append(f"Beside two neighbours +8 % was called in {len(called)} of {len(beside)}.")
    return messages, not wrong and len(called) >= CALLED_BESIDE_NEIGHBOURS * len(beside)


def format_figures(trials: Sequence[Trial], load: float) -> str:
    sentences, _ = check_limits(trials)
    return f"{describe_circumstances(load)}:\n\n{format_table(trials)}\n\n" + "\n".join(sentences)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--equal", type=int, default=300, help="comparisons of a commit with itself, on a quiet machine"
    )
    parser.add_argument("--planted", type=int, default=30, help="comparisons of every planted size")
    parser.add_argument(
        "--beside", type=int, default=30, help="of +8 %% and of nothing each, beside two neighbours"
    )
    parser.add_argument(
        "--keep", type=Path, default=Path(".perfci/compare-study.jsonl"), help="what was compared"
    )
    parser.add_argument(
        "--page", type=Path, help="write the table into this page too, such as docs/studies/compare-study.md"
    )
    options = parser.parse_args()
    load = os.getloadavg()[0]
    options.keep.parent.mkdir(parents=True, exist_ok=True)
    trials = (
        [Trial(**json.loads(line)) for line in options.keep.read_text().splitlines()]
        if options.keep.exists()
        else []
    )
    for where in (QUIET, LOADED):
        wanted = list_remaining_trials(where, options, {trial.key for trial in trials})
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as scratch, busy_neighbours(2 if where == LOADED else 0):
            project, shas = create_repository(Path(scratch) / PROJECT, READINGS[where])
            project.write("perfci.toml", f"[judge]\nmax_pairs = {MOST_PAIRS[where]}\n")
            for planted, number in wanted:
                trials.append(run_comparison(project, shas[0.0], shas[planted], where, planted, number))
                with options.keep.open("a") as file:
                    file.write(json.dumps(asdict(trials[-1])) + "\n")
                print(format_trial(trials[-1]), flush=True)
                if options.page and len(trials) % 10 == 0:
                    replace_figures(options.page, format_figures(trials, load))
    print(f"\n{format_figures(trials, load)}")
    if options.page:
        replace_figures(options.page, format_figures(trials, load))
    sys.exit(0 if check_limits(trials)[1] else 1)


def list_remaining_trials(
    load: str, given: argparse.Namespace, known: set[tuple[str, float, int]]
) -> list[tuple[float, int]]:
    """What is still to be compared, in an order in which no size has a time of day to itself."""
    counts = dict.fromkeys(PLANTED, given.planted) | {0.0: given.equal}
    if load == LOADED:
        counts = {0.0: given.beside, 0.08: given.beside}
    wanted = [(planted, number) for planted, count in counts.items() for number in range(count)]
    random.Random(f"order of {load}").shuffle(wanted)
    return [(planted, number) for planted, number in wanted if (load, planted, number) not in known]


def format_trial(one: Trial) -> str:
    planted = format_signed_percent(one.planted) if one.planted else "nothing"
    result = "" if one.ratio is None else f" {format_signed_percent(one.ratio - 1)}"
    return f"{one.load}, {planted} planted: {one.kind}{result}, {one.pairs} pairs in {one.seconds:.1f} s"


if __name__ == "__main__":
    main()
