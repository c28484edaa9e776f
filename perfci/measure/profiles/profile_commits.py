"""Profile the two commits of a slowdown, in processes of their own that are never judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perfci.measure.profiles.parse_call_profile import read_call_profile
from perfci.measure.profiles.profile_cells_to_files import TRACE_FILE, profile_cells
from perfci.model import Commit, PerfciError, Status
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell
from perfci.verdicts.explain.call_profile import CallProfile

PROCESSES = 2
"""Processes of each commit, at most."""

SAMPLED_CPU_S = 2.0
"""CPU seconds for which each of them samples lines: some 2,000 samples, so that a tenth of the time is known
to a thirtieth of it.
"""


@dataclass(frozen=True, slots=True)
class ProfiledProcess:
    """What one process of a commit left: its profile, and the trace as a file."""

    sha: str
    profile: CallProfile
    folder: Path

    @property
    def trace(self) -> Path:
        return self.folder / TRACE_FILE


def profile_both_commits(
    runner: MeasurementRunner,
    base: Commit,
    head: Commit,
    cell: Cell,
    out: Path,
    on_message: Callable[[str], None],
    *,
    stored: frozenset[str] = frozenset(),
) -> list[ProfiledProcess]:
    """Profile base, head, head, base: a drift of the machine then hits both alike.

    Commits whose shas are ``stored`` are left out.
    """
    order = [commit for commit in (base, head, head, base) if commit.sha not in stored]
    processes = []
    for number, commit in enumerate(order, 1):
        on_message(f"profiling {cell.name} at {commit.short_sha}, process {number} of {len(order)}")
        processes.append(profile_process(runner, commit, cell, out / f"{commit.short_sha}-{number}"))
    return processes


def profile_process(runner: MeasurementRunner, commit: Commit, cell: Cell, out: Path) -> ProfiledProcess:
    """Profile one cell at one commit in a fresh process; raise where that cannot be done."""
    (profiled,) = profile_cells(runner, commit, [cell], out, SAMPLED_CPU_S)
    if profiled.status is not Status.OK or profiled.folder is None:
        raise PerfciError(
            f"{cell.name} cannot be profiled at {commit.short_sha}: "
            f"{profiled.reason or profiled.status.value}"
        )
    return ProfiledProcess(commit.sha, read_call_profile(profiled.folder), profiled.folder)
