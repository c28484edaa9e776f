"""Cells profiled instead of measured: where their files lie, and what they say. Nothing goes into the store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfci.model import Commit, PerfciError, Status
from perfci.runner.cell_outcomes import Outcome
from perfci.runner.frozen_suite import Cell
from perfci.runner.measurement_runner import Workbench

TRACE = "trace.json"
TABLES = "profile.json"
LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Row:
    """A phase, kernel, operator or line: seconds in one call, and the share of its table's whole, a ratio."""

    name: str
    seconds: float
    share: float
    calls: float


@dataclass(frozen=True, slots=True)
class Tables:
    """What ``profile.json`` says; a table that is absent has its reason in ``missing`` under its name."""

    device: str
    kind: str
    calls: int
    seconds: float
    in_operators: float
    busy: float | None
    phases: tuple[Row, ...]
    device_phases: tuple[Row, ...]
    kernels: tuple[Row, ...]
    operators: tuple[Row, ...]
    lines: tuple[Row, ...]
    missing: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Profiled:
    """How one cell ended; ``folder`` and ``tables`` are there where it was profiled into files."""

    cell: Cell
    status: Status
    reason: str
    folder: Path | None = None
    tables: Tables | None = None


def profile_cells(workbench: Workbench, commit: Commit, cells: Sequence[Cell], out: Path | None) -> Iterator[Profiled]:
    """Profile one cell after the other into ``out/<cell>/``; without ``out`` they run in NVTX ranges only."""
    folders = {} if out is None else {cell.name: out.resolve() / folder_name(cell) for cell in cells}
    if out is not None:
        _make_room(out, folders.values())
    for outcome in workbench.profile(commit.sha, cells, folders):
        yield _profiled(outcome, folders.get(outcome.cell.name))


def folder_name(cell: Cell) -> str:
    """A cell's name as a folder: ``training.Step.time_step-8-bf16``, and a digest where that would not tell it all."""
    values = [value.strip("'\"") for _, value in cell.parameters]
    words = [re.sub(r"[^A-Za-z0-9._+=]+", "_", word) for word in (cell.benchmark, *values)]
    plain = "-".join(words)
    if words == [cell.benchmark, *values] and len(plain) <= LONGEST_NAME:
        return plain
    return f"{plain[:LONGEST_NAME]}-{hashlib.sha256(cell.name.encode()).hexdigest()[:8]}"


def _make_room(out: Path, folders: Iterable[Path]) -> None:
    """Take away older profiles of these cells, lest they be taken for one that fails."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file in (folder / name for folder in folders for name in (TRACE, TABLES)):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise PerfciError(f"{out} cannot be written: {error.strerror}; name another folder with --out") from None


def _profiled(outcome: Outcome, folder: Path | None) -> Profiled:
    if outcome.status is not Status.OK or folder is None:
        return Profiled(outcome.cell, outcome.status, outcome.reason)
    return Profiled(outcome.cell, Status.OK, "", folder=folder, tables=read_tables((folder / TABLES).read_text()))


def read_tables(text: str) -> Tables:
    said = json.loads(text)
    tables = ("phases", "device_phases", "kernels", "operators", "lines")
    missing = {name: said[name]["reason"] for name in (*tables, "busy") if isinstance(said[name], dict)}
    rows: dict[str, Any] = {name: () if name in missing else _rows(said[name]) for name in tables}
    told = {name: said[name] for name in ("device", "kind", "calls", "seconds", "in_operators")}
    return Tables(**told, **rows, busy=None if "busy" in missing else said["busy"], missing=missing)


def _rows(rows: Sequence[Mapping[str, Any]]) -> tuple[Row, ...]:
    return tuple(Row(**row) for row in rows)
