"""Profiles of both sides of the worst slowdowns, for the results artifact of a pull request."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path

import click

from perfci.cli.compare.options_and_exit_code import ComparisonOptions
from perfci.cli.profiles.profile import format_profile_tables
from perfci.cli.shared.store_and_machine_lock import lock_machine
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config
from perfci.measure.open_measurement_session import create_suite_runner, prepare_session_scope
from perfci.measure.profiles.profile_cells_to_files import TRACE_FILE, profile_cells, profile_folder_name
from perfci.model import Commit, PerfciError, VerdictKind
from perfci.report.escaping import make_printable
from perfci.report.pulls.comment_row_selection import SECTION_TITLES, sort_verdicts_by_attention
from perfci.report.pulls.comparison_findings import Findings
from perfci.runner.git_repository import GitRepository
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell

MAX_CELLS = 3
"""Cells profiled, the worst first."""

MAX_TRACE_BYTES = 2**20
"""Bytes of a packed trace: six of them stay far below the limits on reading an artifact."""


def profile_slowdowns(
    repository: GitRepository,
    config: Config,
    findings: Findings,
    options: ComparisonOptions,
    folder: Path,
    deadline: float,
) -> list[str]:
    """Write profiles of the worst slowdowns into a folder; returns the cells with a profile of both sides.

    No profile starts after ``deadline`` (of the monotonic clock); cells that cannot be profiled are left out.
    """
    cell_names = find_worst_slowdown_cells(findings)
    if not cell_names or time.monotonic() >= deadline:
        return []
    try:
        return list(_profile_cells(repository, config, findings, options, folder, deadline, cell_names))
    except PerfciError as error:
        click.echo(f"the slowdowns are not profiled: {error}", err=True)
        return []


def find_worst_slowdown_cells(findings: Findings) -> list[str]:
    """The cells of the worst regressions in time."""
    bars = findings.bars_by_series
    slowdowns = [
        verdict
        for verdict in findings.primary_verdicts
        if verdict.kind is VerdictKind.REGRESSION
        and SECTION_TITLES[bars[verdict.series].metric_class] == "Time"
    ]
    return list(dict.fromkeys(verdict.series.cell for verdict in sort_verdicts_by_attention(slowdowns)))[
        :MAX_CELLS
    ]


def _profile_cells(
    repository: GitRepository,
    config: Config,
    findings: Findings,
    options: ComparisonOptions,
    folder: Path,
    deadline: float,
    cell_names: list[str],
) -> Iterator[str]:
    progress = TerminalProgress()
    with create_suite_runner(repository, config, options.suite, smoke=options.smoke) as runner:
        subject = prepare_session_scope(
            runner, [findings.base, findings.head], options.bench, progress.report
        )
        cells = {cell.name: cell for cell in subject.cells}
        with lock_machine(config, "perfci github compare", progress, no_wait=options.no_wait):
            for cell in (cells[name] for name in cell_names if name in cells):
                if time.monotonic() >= deadline:
                    return
                commits = f"{findings.base.short_sha} and {findings.head.short_sha}"
                progress.report(f"profiling {make_printable(cell.name)} at {commits}")
                files = [
                    *_profile_files(runner, repository.private_folder, "base", findings.base, cell),
                    *_profile_files(runner, repository.private_folder, "head", findings.head, cell),
                ]
                if {side for side, _, _ in files} == {"base", "head"}:
                    folder.mkdir(parents=True, exist_ok=True)
                    for side, suffix, content in files:
                        (folder / f"{profile_folder_name(cell)}-{side}.{suffix}").write_bytes(content)
                    yield cell.name


def _profile_files(
    runner: MeasurementRunner, private: Path, side: str, commit: Commit, cell: Cell
) -> list[tuple[str, str, bytes]]:
    """Side, suffix and content of the files of one profile; empty if it failed."""
    [profile] = profile_cells(runner, commit, [cell], private / "profiles" / commit.short_sha)
    if profile.tables is None or profile.folder is None:
        return []
    heading = f"{make_printable(cell.name)} at {commit.short_sha} {make_printable(commit.subject)}"
    text = "\n".join([heading, *format_profile_tables(profile.tables)]) + "\n"
    trace = gzip.compress((profile.folder / TRACE_FILE).read_bytes(), mtime=0)
    traces = [(side, "trace.json.gz", trace)] if len(trace) <= MAX_TRACE_BYTES else []
    return [(side, "txt", text.encode()), *traces]
