"""``perfci profile [REV] --bench REGEX``: profile a benchmark, as tables and a trace."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import (
    bench_option,
    global_options,
    json_option,
    smoke_option,
    suite_option,
    wait_option,
)
from perfci.cli.shared.repository_and_config import current_repository, load_repository_config
from perfci.cli.shared.store_and_machine_lock import lock_machine
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.measure.open_measurement_session import create_suite_runner, prepare_session_scope
from perfci.measure.profiles.profile_cells_to_files import (
    TABLES_FILE,
    TRACE_FILE,
    ProfiledCell,
    ProfileReport,
    ProfileRow,
    profile_cells,
)
from perfci.model import PerfciError, Status
from perfci.number_format import (
    DisplayScale,
    choose_display_scale,
    format_count,
    format_number,
    format_percent,
)
from perfci.report.escaping import make_printable
from perfci.report.text_table import align_table
from perfci.runner.suite_cells import Cell

MAX_CELLS = 10
"""Cells profiled without ``--all``: each takes a process of its own."""

MAX_ROWS_SHOWN = 10
MAX_NAME_WIDTH = 88

VIEWERS = "https://ui.perfetto.dev or chrome://tracing"


@dataclass(frozen=True, slots=True)
class ProfileCommandLine:
    """The arguments that the printed nsys command has to repeat."""

    revision: str
    suite: Path | None
    smoke: bool


@click.command("profile")
@click.argument("revision", default="", metavar="[REV]")
@suite_option
@bench_option
@smoke_option
@click.option("--all", "all_cells", is_flag=True, help=f"also profile more than {MAX_CELLS} cells")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="folder of the profiles  [default: .perfci/profiles/COMMIT]",
)
@click.option("--only-ranges", is_flag=True, help="run in NVTX ranges and write nothing, for nsys to record")
@wait_option
@json_option
@global_options
def profile_command(
    revision: str,
    suite: Path | None,
    bench: str,
    smoke: bool,
    all_cells: bool,
    out: Path | None,
    only_ranges: bool,
    no_wait: bool,
    json_file: str | None,
) -> int:
    """Profile benchmarks at REV (the working tree when absent): phases, kernels, operators, Python lines, a
    trace.

    Each matching cell runs in a fresh process of the measured environment; nothing is stored. Exit code 0
    all profiled or skipped with a reason, 1 some failed, 2 usage, 4 nothing profiled, 130 interrupted.
    """
    repository = current_repository()
    config = load_repository_config(repository)
    commit = (
        repository.read_commit(repository.resolve_revision(revision))
        if revision
        else repository.snapshot_working_tree()
    )
    progress = TerminalProgress()
    profiles: list[ProfiledCell] = []
    command_line = ProfileCommandLine(revision and commit.sha, suite, smoke)
    with create_suite_runner(repository, config, suite, smoke=smoke) as runner:
        subject = prepare_session_scope(runner, [commit], bench, progress.report)
        require_few_cells(subject.cells, bench, all_cells)
        folder = None if only_ranges else out or repository.private_folder / "profiles" / commit.short_sha
        with lock_machine(config, "perfci profile", progress, no_wait=no_wait):
            count = format_count(len(subject.cells), "cell")
            progress.report(f"profiling {count} at {commit.short_sha} {commit.subject}")
            try:
                for profiled in profile_cells(runner, commit, subject.cells, folder):
                    profiles.append(profiled)
                    if json_file != "-":
                        click.echo("\n".join(format_profile(profiled, command_line)))
            except KeyboardInterrupt:
                progress.report("interrupted; the profiles shown are complete")
                return 130
    if json_file:
        write_json(json_file, {"commit": commit, "profiles": list(map(serialize_profile, profiles))})
    return profile_exit_code(profiles)


def require_few_cells(cells: Sequence[Cell], bench: str, all_cells: bool) -> None:
    """Reject a command that would profile more cells than MAX_CELLS without ``--all``."""
    if len(cells) > MAX_CELLS and not all_cells:
        likely = next((cell for cell in cells if cell.benchmark.endswith(".measure_training")), cells[0])
        subject = f"--bench {bench!r} matches" if bench else "the suite has"
        raise PerfciError(
            f"{subject} {len(cells)} cells, and each would be profiled; narrow it to {MAX_CELLS} or fewer, "
            f"for example --bench {shlex.quote(shell_safe_cell_regex(likely))}, or give --all"
        )


def shell_safe_cell_regex(cell: Cell) -> str:
    """A regular expression for this cell that needs no escape in a shell: a dot stands for a quote."""
    return f"^{re.escape(cell.name)}$".replace("'", ".").replace(r"\ ", " ")


def format_profile(cell_profile: ProfiledCell, command_line: ProfileCommandLine) -> Iterator[str]:
    """The text about one cell: its tables, and how to open its trace."""
    name = make_printable(cell_profile.cell.name)
    if cell_profile.status is not Status.OK:
        status = "not profiled" if cell_profile.status is Status.SKIPPED else cell_profile.status
        yield f"{name}: {status}: {cell_profile.reason}\n"
        return
    if cell_profile.tables is None or cell_profile.folder is None:
        yield f"{name}: ran in NVTX ranges\n"
        return
    yield name
    yield from format_profile_tables(cell_profile.tables)
    trace = path_relative_to_cwd(cell_profile.folder / TRACE_FILE)
    yield f"{trace} opens in {VIEWERS}; {TABLES_FILE} beside it holds the full tables"
    if cell_profile.tables.kind == "cuda":
        nsys = format_nsys_command(cell_profile.cell, cell_profile.folder, command_line)
        yield f"the ranges in Nsight Systems: {nsys}"
    yield ""


def path_relative_to_cwd(path: Path) -> str:
    """A path as seen from this folder, where it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def format_nsys_command(cell: Cell, folder: Path, command_line: ProfileCommandLine) -> str:
    """A command that runs the cell under nsys; two profilers cannot record one process, so ours opens ranges
    only.
    """
    perfci = ["perfci", "profile"]
    perfci += [command_line.revision] if command_line.revision else []
    perfci += ["--bench", shell_safe_cell_regex(cell)]
    perfci += ["--suite", str(command_line.suite)] if command_line.suite else []
    perfci += ["--smoke"] if command_line.smoke else []
    recorder = [
        "nsys",
        "profile",
        "--trace=cuda,nvtx",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--force-overwrite=true",
        f"--output={path_relative_to_cwd(folder / 'nsys')}",
    ]
    return shlex.join([*recorder, *perfci, "--only-ranges"])


def serialize_profile(cell_profile: ProfiledCell) -> Mapping[str, object]:
    """A profile as plain JSON values."""
    folder = cell_profile.folder
    return {
        "cell": cell_profile.cell.name,
        "benchmark": cell_profile.cell.benchmark,
        "parameters": dict(cell_profile.cell.parameters),
        "status": cell_profile.status,
        "reason": cell_profile.reason,
        "trace": folder and str(folder / TRACE_FILE),
        "tables": cell_profile.tables,
    }


def profile_exit_code(cell_profiles: Sequence[ProfiledCell]) -> int:
    """4 nothing profiled, 1 a profile failed, else 0."""
    if not any(profiled.status is Status.OK for profiled in cell_profiles):
        return 4
    return 0 if all(profiled.status in (Status.OK, Status.SKIPPED) for profiled in cell_profiles) else 1


def format_profile_tables(tables: ProfileReport) -> Iterator[str]:
    """A line on the calls, then one table per kind of row."""
    scale = choose_display_scale([tables.seconds], "seconds")
    parts = [f"an operator ran for {format_percent(tables.in_operators)} of it"]
    parts += [f"a kernel for {format_percent(tables.busy)}"] if tables.busy is not None else []
    calls = format_count(tables.calls, "call")
    yield f"{calls} of {scale.format_with_unit(tables.seconds)} on {tables.device}; {', '.join(parts)}\n"
    if tables.phases:
        yield format_phase_table(tables, scale)
    else:
        yield "no phases marked (the training and generation of a ModelBench mark some)\n"
    if tables.kernels:
        yield format_profile_table(("kernel", "device time", "share", "calls"), tables.kernels, scale)
    else:
        yield f"kernels: {tables.missing.get('kernels', 'none')}\n"
    yield format_profile_table(("operator", "self time", "share", "calls"), tables.operators, scale)
    yield format_profile_table(("line", "CPU time", "share", ""), tables.lines, scale)


def format_phase_table(tables: ProfileReport, scale: DisplayScale) -> str:
    """Host time of every phase beside the device time of the work launched in it."""
    on_device = {row.name: row for row in tables.device_phases}
    rows = []
    for row in tables.phases:
        device = on_device.get(row.name)
        host = (row.name, scale.format_with_unit(row.seconds), format_percent(row.share))
        on_gpu = (
            (scale.format_with_unit(device.seconds), format_percent(device.share)) if device else ("", "")
        )
        rows.append((*host, *on_gpu))
    return align_table(("phase", "host time", "share", "device time", "share"), rows) + "\n"


def format_profile_table(
    headings: tuple[str, str, str, str], rows: Sequence[ProfileRow], scale: DisplayScale
) -> str:
    """One table of rows with time, share and calls; the longest first."""
    if not rows:
        return f"{headings[0]}s: none\n"
    cells = [
        (
            make_printable(row.name, limit=MAX_NAME_WIDTH),
            scale.format_with_unit(row.seconds),
            format_percent(row.share),
            format_number(row.calls) if row.calls else "",
        )
        for row in rows[:MAX_ROWS_SHOWN]
    ]
    return align_table(headings, cells) + "\n"
