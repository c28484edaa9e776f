"""Plant one slowdown at a time in a small model's repository: the metrics that name it catch it, and no
others move.

Run as ``python -m tools.study_slowdowns``; it compares every mutant of ``tests/mutants`` with what it was
before, by the command a user types, and prints the table of docs/studies/slowdowns.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutants
from mutants import MUTANTS, Mutant

from perfci.model import CPU_METRIC_PREFIX
from perfci.number_format import format_number, format_signed_percent
from tests.support.git_project import ISOLATED, GitProject
from tools.write_study_page import describe_circumstances, replace_figures

NOTHING = Mutant("nothing", frozenset())
"""The base against itself."""

QUIET = ("unchanged", "inconclusive")

Verdict = Mapping[str, Any]
"""As ``perfci compare --json`` writes it."""


@dataclass(frozen=True)
class Trial:
    """What one comparison said of one mutant: verdicts by the name of their metric."""

    mutant: Mutant
    verdicts: Mapping[str, Verdict]
    exit_code: int
    seconds: float = 0.0

    @property
    def caught(self) -> list[str]:
        return sorted(name for name in self.mutant.caught_in if self._kind(name) == "regression")

    @property
    def missed(self) -> list[str]:
        return sorted(self.mutant.caught_in - set(self.caught))

    @property
    def moved_as_well(self) -> list[str]:
        return sorted(name for name in self._moved() if name in self.mutant.may_move)

    @property
    def stray(self) -> list[str]:
        """Metrics of which something is said that was not foreseen, be it good or bad."""
        return sorted(self._moved() - self.mutant.caught_in - self.mutant.may_move.keys())

    @property
    def good(self) -> bool:
        """Whether something was judged, all that had to be said was said, nothing else, and by the exit
        code too.
        """
        result = self.exit_code == (1 if self.mutant.caught_in else 0)
        return bool(self.verdicts) and not self.missed and not self.stray and result

    def _kind(self, name: str) -> str:
        return str(self.verdicts[name]["kind"]) if name in self.verdicts else "not judged"

    def _moved(self) -> set[str]:
        return {name for name in self.verdicts if self._kind(name) not in QUIET}


def parse_verdicts(told: Mapping[str, Any]) -> dict[str, Verdict]:
    return {metric_name(verdict): verdict for verdict in told["verdicts"]}


def metric_name(verdict: Verdict) -> str:
    series = verdict["series"]
    function = series["benchmark"]["name"].rpartition("measure_")[2]
    return f"{function}.{series['metric']['name'].removeprefix(CPU_METRIC_PREFIX)}"


def create_repository(folder: Path, planted: Iterable[Mutant]) -> tuple[GitProject, dict[str, str]]:
    """The base on main, and one commit on top of it per mutant; its sha by the mutant's name."""
    project = GitProject(folder)
    mutants.write_base(folder)
    shas = {NOTHING.name: project.commit("A small language model")}
    for mutant in planted:
        project.git("checkout", "--quiet", "--detach", shas[NOTHING.name])
        mutants.apply(mutant, folder)
        shas[mutant.name] = project.commit(mutant.name)
    project.git("checkout", "--quiet", "main")
    return project, shas


def run_trial(project: GitProject, base: str, head: str, mutant: Mutant, keep: Path) -> Trial:
    """One comparison, as a user would make it; what it printed is kept."""
    text = keep / f"{mutant.name}.json"
    text.unlink(missing_ok=True)
    command = [sys.executable, "-m", "perfci.cli", "compare", base, head, "--json", str(text)]
    env = {**os.environ, **ISOLATED}
    begin = time.monotonic()
    done = subprocess.run(command, cwd=project.folder, env=env, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begin
    (keep / f"{mutant.name}.txt").write_text(done.stdout + done.stderr)
    verdicts = parse_verdicts(json.loads(text.read_text())) if text.exists() else {}
    return Trial(mutant, verdicts, done.returncode, seconds)


HEADINGS = (
    "slowdown",
    "",
    "caught in",
    "moved as well, as foreseen",
    "not foreseen",
    "metrics judged",
    "time",
)


def format_table(trials: Sequence[Trial]) -> str:
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    return "\n".join([*lines, *(f"| {' | '.join(format_row(each_trial))} |" for each_trial in trials)])


def format_row(item: Trial) -> tuple[str, ...]:
    return (
        item.mutant.name,
        "✓" if item.good else "✗",
        _told(item, item.caught, missed=item.missed),
        _told(item, item.moved_as_well),
        _told(item, item.stray),
        str(len(item.verdicts)) if item.verdicts else f"none, exit code {item.exit_code}",
        f"{item.seconds:.0f} s",
    )


def _told(item: Trial, names: Sequence[str], missed: Sequence[str] = ()) -> str:
    parts = [f"`{name}` {format_change(item.verdicts[name])}" for name in names]
    parts += [f"**missed** `{name}`" + _state(item.verdicts.get(name)) for name in missed]
    return "<br>".join(parts) or "nothing"


def _state(verdict: Verdict | None) -> str:
    return f" ({verdict['kind']} {format_change(verdict)})" if verdict else " (not judged)"


def format_change(verdict: Verdict) -> str:
    """``+53.1 % [+50.0 %, +56.2 %]``; what was counted exactly has no interval, and may have no ratio."""
    if verdict["ratio"] is None:
        levels = [verdict["base_level"], verdict["head_level"]]
        counted = all(level is not None for level in levels)
        return " → ".join(format_number(level) for level in levels) if counted else str(verdict["kind"])
    size = format_signed_percent(verdict["ratio"] - 1)
    bounds = verdict["interval"]
    if bounds is None or bounds["lo"] == bounds["hi"]:
        return size
    return f"{size} [{format_signed_percent(bounds['lo'] - 1)}, {format_signed_percent(bounds['hi'] - 1)}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [mutant.name for mutant in (*MUTANTS, NOTHING)]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names)
    )
    parser.add_argument("--keep", type=Path, help="a folder for what each comparison printed")
    parser.add_argument(
        "--page", type=Path, help="write the table into this page too, such as docs/studies/slowdowns.md"
    )
    options = parser.parse_args()
    planted = [mutant for mutant in MUTANTS if mutant.name in options.only]
    load = os.getloadavg()[0]
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory() as scratch:
        keep = options.keep or Path(scratch) / "told"
        keep.mkdir(parents=True, exist_ok=True)
        project, shas = create_repository(Path(scratch) / "lm", planted)
        # The base against itself comes last: what it shows is a noise floor for all that is compared after
        # it.
        for mutant in [*planted, *([NOTHING] if NOTHING.name in options.only else [])]:
            trials.append(run_trial(project, shas[NOTHING.name], shas[mutant.name], mutant, keep.resolve()))
            print(format_table(trials).splitlines()[-1], flush=True)
    figures = f"{describe_circumstances(load)}:\n\n{format_table(trials)}"
    print(f"\n{figures}")
    if options.page:
        replace_figures(options.page, figures)
    sys.exit(0 if all(each_trial.good for each_trial in trials) else 1)


if __name__ == "__main__":
    main()
