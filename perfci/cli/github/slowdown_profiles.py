"""Both sides of the worst slowdowns, profiled for the artifact of a pull request's job."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from perfci.cli.compare.variants import Asked
from perfci.cli.profile import table_lines
from perfci.cli.shared.terminal_progress import Progress
from perfci.config import Config
from perfci.measure.open_session import open_subject, open_workbench
from perfci.measure.profiles import TRACE, folder_name, profile_cells
from perfci.model import Commit, PerfciError, VerdictKind
from perfci.report.escaping import printable
from perfci.report.pulls.comment_columns import SECTIONS, by_attention
from perfci.report.pulls.comparison_findings import Findings
from perfci.runner.frozen_suite import Cell
from perfci.runner.git_repository import Repository
from perfci.runner.locks import machine_lock
from perfci.runner.measurement_runner import Workbench

MOST_CELLS = 3

LARGEST_TRACE = 2**20
"""Bytes, packed: six of them beside what was measured are far from what a reader of artifacts takes."""


def profile_sides(
    repository: Repository, config: Config, found: Findings, asked: Asked, folder: Path, until: float
) -> list[str]:
    """Write profiles of the worst slowdowns into a folder; answers the cells of which both sides are there.

    Nothing is begun once the monotonic clock is at ``until``, and what cannot be profiled is left out.
    """
    wanted = slowest(found)
    if not wanted or time.monotonic() >= until:
        return []
    try:
        return list(_profiled(repository, config, found, asked, folder, until, wanted))
    except PerfciError as error:
        click.echo(f"the slowdowns are not profiled: {error}", err=True)
        return []


def slowest(found: Findings) -> list[str]:
    """The cells of the worst regressions in time."""
    held_to = found.held_to
    slower = [one for one in found.verdicts if one.kind is VerdictKind.REGRESSION]
    in_time = [one for one in slower if SECTIONS[held_to[one.series].kind] == "Time"]
    return list(dict.fromkeys(one.series.cell for one in by_attention(in_time)))[:MOST_CELLS]


def _profiled(
    repository: Repository, config: Config, found: Findings, asked: Asked, folder: Path, until: float,
    wanted: list[str],
) -> Iterator[str]:  # fmt: skip
    progress, owner = Progress(), f"perfci github compare in {config.root}"
    with open_workbench(repository, config, asked.suite, smoke=asked.smoke) as workbench:
        subject = open_subject(workbench, [found.base, found.head], asked.bench, progress.say)
        cells = {cell.name: cell for cell in subject.cells}
        with machine_lock(config.lock_path, owner=owner, wait=not asked.no_wait, waiting=progress.say):
            for cell in (cells[name] for name in wanted if name in cells):
                if time.monotonic() >= until:
                    return
                progress.say(f"profiling {printable(cell.name)} at {found.base.short} and {found.head.short}")
                files = [
                    *_files(workbench, repository.private, "base", found.base, cell),
                    *_files(workbench, repository.private, "head", found.head, cell),
                ]
                if {side for side, _, _ in files} == {"base", "head"}:
                    _write(folder, cell, files)
                    yield cell.name


def _files(workbench: Workbench, private: Path, side: str, commit: Commit, cell: Cell) -> list[tuple[str, str, bytes]]:
    """Side, suffix and content of what a cell's profile comes to; nothing where there is none."""
    [one] = profile_cells(workbench, commit, [cell], private / "profiles" / commit.short)
    if one.tables is None or one.folder is None:
        return []
    heading = f"{printable(cell.name)} at {commit.short} {printable(commit.subject)}"
    text = "\n".join([heading, *table_lines(one.tables)]) + "\n"
    trace = gzip.compress((one.folder / TRACE).read_bytes(), mtime=0)
    traces = [(side, "trace.json.gz", trace)] if len(trace) <= LARGEST_TRACE else []
    return [(side, "txt", text.encode()), *traces]


def _write(folder: Path, cell: Cell, files: Iterable[tuple[str, str, bytes]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for side, suffix, content in files:
        (folder / f"{folder_name(cell)}-{side}.{suffix}").write_bytes(content)
