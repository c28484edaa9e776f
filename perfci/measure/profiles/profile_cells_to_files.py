"""Profile cells instead of measuring them: write their files and parse their tables."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfci.model import Commit, PerfciError, Status
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell

TRACE_FILE = "trace.json"
"""The trace of a profiled cell, for a trace viewer."""

TABLES_FILE = "profile.json"
"""The tables of a profiled cell, which ``parse_profile_report`` reads."""

TREE_FILE = "call_tree.json"
"""The time of a profiled cell by open lines, which ``parse_call_profile`` reads."""

MAX_NAME_LENGTH = 120
"""Longest folder name, in characters."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A phase, kernel, operator or line: seconds in one call, and its share of the table's total, a ratio."""

    name: str
    seconds: float
    share: float
    calls: float


@dataclass(frozen=True, slots=True)
class ProfileReport:
    """The content of ``profile.json``; an absent table has its reason in ``missing`` under its name."""

    device: str
    kind: str
    calls: int
    seconds: float
    in_operators: float
    busy: float | None
    phases: tuple[ProfileRow, ...]
    device_phases: tuple[ProfileRow, ...]
    kernels: tuple[ProfileRow, ...]
    operators: tuple[ProfileRow, ...]
    lines: tuple[ProfileRow, ...]
    missing: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProfiledCell:
    """How one cell ended; ``folder`` and ``tables`` are set where it was profiled into files."""

    cell: Cell
    status: Status
    reason: str
    folder: Path | None = None
    tables: ProfileReport | None = None


def profile_cells(
    runner: MeasurementRunner,
    commit: Commit,
    cells: Sequence[Cell],
    out: Path | None,
    sampled_cpu_s: float | None = None,
) -> Iterator[ProfiledCell]:
    """Profile one cell after the other into ``out/<cell>/``; without ``out`` they run in NVTX ranges only."""
    folders = {} if out is None else {cell.name: out.resolve() / profile_folder_name(cell) for cell in cells}
    if out is not None:
        _remove_old_profiles(out, folders.values())
    for outcome in runner.profile_cells(commit.sha, cells, folders, sampled_cpu_s):
        folder = folders.get(outcome.cell.name)
        if outcome.status is not Status.OK or folder is None:
            yield ProfiledCell(outcome.cell, outcome.status, outcome.reason)
        else:
            tables = parse_profile_report((folder / TABLES_FILE).read_text())
            yield ProfiledCell(outcome.cell, Status.OK, "", folder=folder, tables=tables)


def profile_folder_name(cell: Cell) -> str:
    """A cell's name as a folder, such as ``training.Step.time_step-8-bf16``.

    With a hash where characters are lost.
    """
    # Parameters are stored as Python literals, so texts have quotes.
    values = [value.strip("'\"") for _, value in cell.parameters]
    words = [re.sub(r"[^A-Za-z0-9._+=]+", "_", word) for word in (cell.benchmark, *values)]
    plain = "-".join(words)
    if words == [cell.benchmark, *values] and len(plain) <= MAX_NAME_LENGTH:
        return plain
    return f"{plain[:MAX_NAME_LENGTH]}-{hashlib.sha256(cell.name.encode()).hexdigest()[:8]}"


def _remove_old_profiles(out: Path, folders: Iterable[Path]) -> None:
    """Remove older profiles of these cells.

    The old files of a cell that now fails would pass for new ones.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file in (folder / name for folder in folders for name in (TRACE_FILE, TABLES_FILE, TREE_FILE)):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise PerfciError(
            f"{out} cannot be written: {error.strerror}; name another folder with --out"
        ) from None


def parse_profile_report(text: str) -> ProfileReport:
    """Parse ``profile.json``, in which an absent table is an object with a ``reason``."""
    report = json.loads(text)
    tables = ("phases", "device_phases", "kernels", "operators", "lines")
    missing = {name: report[name]["reason"] for name in (*tables, "busy") if isinstance(report[name], dict)}
    rows: dict[str, Any] = {
        name: () if name in missing else tuple(ProfileRow(**row) for row in report[name]) for name in tables
    }
    scalars = {name: report[name] for name in ("device", "kind", "calls", "seconds", "in_operators")}
    return ProfileReport(
        **scalars, **rows, busy=None if "busy" in missing else report["busy"], missing=missing
    )
