"""Make the sample repository: a tiny language model, 24 commits, and notes of the changes planted in them.

The commits are the patches in ``sample/``, applied in order; author, date and message come from the
patches and the committer is fixed, so every machine gets the same shas. Planted changes are
recorded only in git notes, which neither the suite nor the detector reads. To change the history,
rebase a repository it made, and export it again with ``git format-patch --root --zero-commit
--no-signature --no-numbered --no-renames``.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perfci.model import PerfciError

PATCHES_FOLDER = Path(__file__).with_name("sample")
NOTES_REF = "refs/notes/planted"
COMMITTER = {"GIT_COMMITTER_NAME": "tinylm maintainers", "GIT_COMMITTER_EMAIL": "maintainers@tinylm.example"}
NOTE_DATE = "2026-10-05T09:00:00+00:00"

PlantedEffect = Literal["slower", "faster", "more_memory", "less_memory"]
PlantedKind = Literal["regression", "improvement"]
KIND_OF_EFFECT: Mapping[PlantedEffect, PlantedKind] = {
    "slower": "regression",
    "more_memory": "regression",
    "faster": "improvement",
    "less_memory": "improvement",
}

TRAINING = "training.Step.time_step"
GENERATION = "generation.Generate.time_generate"
MEMORY = "memory.Training.track_peak_bytes"
METRIC_OF_BENCHMARK = {TRAINING: "time", GENERATION: "time", MEMORY: "peak_memory"}

PLANTED_CHANGES: Mapping[str, tuple[tuple[str, PlantedEffect, float], ...]] = {
    "Generate without gradients and without sorting": ((GENERATION, "faster", -0.38),),
    "Compute the loss in double precision": ((TRAINING, "slower", 0.4), (MEMORY, "more_memory", 0.32)),
    'Revert "Compute the loss in double precision"': (
        (TRAINING, "faster", -0.28),
        (MEMORY, "less_memory", -0.24),
    ),
    "Report the accuracy of every training step": ((TRAINING, "slower", 0.32),),
    "Keep the last logits for the notebooks": ((MEMORY, "more_memory", 0.19),),
    "Generate with any model that scores tokens": ((GENERATION, "slower", 2.0),),
    "Follow the weights and gradients in histograms": ((TRAINING, "slower", 0.43),),
}
"""Subject of a commit -> the benchmarks it moves, in which direction, and by what share of the
level before."""


@dataclass(frozen=True, slots=True)
class PlantedChange:
    """One benchmark that one commit moves; ``relative_change`` is after/before - 1 as measured when
    it was planted."""

    sha: str
    subject: str
    benchmark: str
    metric: str
    kind: PlantedKind
    relative_change: float


def make_sample_repository(folder: Path) -> None:
    """Make the repository, with its work tree checked out, in a folder that is empty or missing."""
    if folder.exists() and any(folder.iterdir()):
        raise PerfciError(
            f"the sample repository needs an empty folder, and {folder} is not; name another or empty it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    _run_git(folder, "init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main")
    patches = sorted(str(patch) for patch in PATCHES_FOLDER.glob("*.patch"))
    _run_git(folder, "am", "--quiet", "--committer-date-is-author-date", *patches)
    for sha, subject in _read_log(folder, "%s"):
        if subject in PLANTED_CHANGES:
            _run_git(folder, "notes", f"--ref={NOTES_REF}", "add", "--message", _format_note(subject), sha)


def read_planted_changes(repo: Path) -> list[PlantedChange]:
    """Read the planted changes from the repository's notes, oldest commit first."""
    changes = []
    for sha, text in _read_log(repo, "%s%x00%N"):
        subject, _, note = text.partition("\0")
        rows = json.loads(note) if note.strip() else []
        changes += [
            PlantedChange(
                sha, subject, row["benchmark"], row["metric"], KIND_OF_EFFECT[row["change"]], row["about"]
            )
            for row in rows
        ]
    return changes


def _format_note(subject: str) -> str:
    rows = [
        {
            "benchmark": benchmark,
            "metric": METRIC_OF_BENCHMARK[benchmark],
            "change": change,
            "about": relative_change,
        }
        for benchmark, change, relative_change in PLANTED_CHANGES[subject]
    ]
    return json.dumps(rows, indent=1)


def _read_log(repo: Path, log_format: str) -> list[tuple[str, str]]:
    """Sha and the given fields of every commit, oldest first."""
    log = _run_git(
        repo,
        "log",
        "--reverse",
        "--first-parent",
        f"--notes={NOTES_REF}",
        f"--format=%H%x00{log_format}%x1e",
        "main",
    )
    records = [record.strip("\n").partition("\0") for record in log.split("\x1e")]
    return [(sha, rest) for sha, _, rest in records if sha]


def _run_git(folder: Path, *arguments: str) -> str:
    """Run git as if its user had never configured it: a signing key or a hook would change the shas."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder.resolve().parent),
        "GIT_AUTHOR_NAME": COMMITTER["GIT_COMMITTER_NAME"],
        "GIT_AUTHOR_EMAIL": COMMITTER["GIT_COMMITTER_EMAIL"],
        "GIT_AUTHOR_DATE": NOTE_DATE,
        "GIT_COMMITTER_DATE": NOTE_DATE,
        **COMMITTER,
    }
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, capture_output=True, encoding="utf-8"
        )
    except FileNotFoundError:
        raise PerfciError(
            "git was not found; install it (2.32 or newer) to make the sample repository"
        ) from None
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise PerfciError(
            f"git {arguments[0]} failed while handling the sample repository {folder}: {reason}"
        )
    return done.stdout
