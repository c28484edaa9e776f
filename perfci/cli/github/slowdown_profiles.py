"""Both sides of the worst slowdowns, profiled for the artifact of a pull request's job."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from perfci.cli.compare.variants import ComparisonOptions
from perfci.cli.profile import format_tables
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config
from perfci.measure.open_session import open_workbench, prepare_scope
from perfci.measure.profiles import TRACE_FILE, folder_name, profile_cells
from perfci.model import Commit, PerfciError, VerdictKind
from perfci.report.escaping import make_printable
from perfci.report.pulls.comment_columns import SECTION_TITLES, sort_by_attention
from perfci.report.pulls.comparison_findings import Findings
from perfci.runner.frozen_suite import Cell
from perfci.runner.git_repository import GitRepository
from perfci.runner.locks import machine_lock
from perfci.runner.measurement_runner import MeasurementRunner

MAX_CELLS = 3

MAX_TRACE_BYTES = 2**20
"""Bytes, packed: six of them beside what was measured are far from what a reader of artifacts takes."""


def profile_slowdowns(
    repository: GitRepository,
    config: Config,
    findings: Findings,
    options: ComparisonOptions,
    folder: Path,
    deadline: float,
) -> list[str]:
    """Write profiles of the worst slowdowns into a folder; answers the cells of which both sides are there.

    Nothing is begun once the monotonic clock is at ``until``, and what cannot be profiled is left out.
    """
    wanted = worst_slowdowns(findings)
    if not wanted or time.monotonic() >= deadline:
        return []
    try:
        return list(_profile_cells(repository, config, findings, options, folder, deadline, wanted))
    except PerfciError as error:
        click.echo(f"the slowdowns are not profiled: {error}", err=True)
        return []


def worst_slowdowns(findings: Findings) -> list[str]:
    """The cells of the worst regressions in time."""
    held_to = findings.bars_by_series
    slower = [one for one in findings.verdicts if one.kind is VerdictKind.REGRESSION]
    in_time = [one for one in slower if SECTION_TITLES[held_to[one.series].metric_class] == "Time"]
    return list(dict.fromkeys(one.series.cell for one in sort_by_attention(in_time)))[:MAX_CELLS]


def _profile_cells(
    repository: GitRepository,
    config: Config,
    findings: Findings,
    options: ComparisonOptions,
    folder: Path,
    deadline: float,
    cell_names: list[str],
) -> Iterator[str]:
    progress, owner = TerminalProgress(), f"perfci github compare in {config.root}"
    with open_workbench(repository, config, options.suite, smoke=options.smoke) as workbench:
        subject = prepare_scope(workbench, [findings.base, findings.head], options.bench, progress.report)
        cells = {cell.name: cell for cell in subject.cells}
        with machine_lock(config.lock_path, owner=owner, wait=not options.no_wait, on_wait=progress.report):
            for cell in (cells[name] for name in cell_names if name in cells):
                if time.monotonic() >= deadline:
                    return
                progress.report(
                    f"profiling {make_printable(cell.name)} at {findings.base.short_sha} and {findings.head.short_sha}"
                )
                files = [
                    *_profile_files(workbench, repository.private_folder, "base", findings.base, cell),
                    *_profile_files(workbench, repository.private_folder, "head", findings.head, cell),
                ]
                if {side for side, _, _ in files} == {"base", "head"}:
                    _write_files(folder, cell, files)
                    yield cell.name


def _profile_files(
    workbench: MeasurementRunner, private: Path, side: str, commit: Commit, cell: Cell
) -> list[tuple[str, str, bytes]]:
    """Side, suffix and content of what a cell's profile comes to; nothing where there is none."""
    [one] = profile_cells(workbench, commit, [cell], private / "profiles" / commit.short_sha)
    if one.tables is None or one.folder is None:
        return []
    heading = f"{make_printable(cell.name)} at {commit.short_sha} {make_printable(commit.subject)}"
    text = "\n".join([heading, *format_tables(one.tables)]) + "\n"
    trace = gzip.compress((one.folder / TRACE_FILE).read_bytes(), mtime=0)
    traces = [(side, "trace.json.gz", trace)] if len(trace) <= MAX_TRACE_BYTES else []
    return [(side, "txt", text.encode()), *traces]


def _write_files(folder: Path, cell: Cell, files: Iterable[tuple[str, str, bytes]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for side, suffix, content in files:
        (folder / f"{folder_name(cell)}-{side}.{suffix}").write_bytes(content)
