"""``perfci profile [REV] --bench REGEX``: where the time of a benchmark goes, as tables and a trace to open."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from perfci.cli.shared.context import current_repository, load_repository_config, write_json
from perfci.cli.shared.options import (
    bench_option,
    global_options,
    json_option,
    smoke_option,
    suite_option,
    wait_option,
)
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.measure.open_session import open_workbench, prepare_scope
from perfci.measure.profiles import (
    TABLES_FILE,
    TRACE_FILE,
    ProfiledCell,
    ProfileReport,
    ProfileRow,
    profile_cells,
)
from perfci.model import PerfciError, Status
from perfci.report.escaping import make_printable
from perfci.report.number_format import (
    DisplayScale,
    choose_scale,
    format_count,
    format_number,
    format_percent,
)
from perfci.report.text_tables import align_table
from perfci.runner.frozen_suite import Cell
from perfci.runner.locks import machine_lock

MAX_CELLS = 10
MAX_ROWS_SHOWN = 10
MAX_NAME_WIDTH = 88

VIEWERS = "https://ui.perfetto.dev or chrome://tracing"


@dataclass(frozen=True, slots=True)
class ProfileCommandLine:
    """What was typed, as far as another command line has to repeat it."""

    revision: str
    suite: Path | None
    smoke: bool


@click.command("profile")
@click.argument("revision", default="", metavar="[REV]")
@suite_option
@bench_option
@smoke_option
@click.option("--all", "every", is_flag=True, help=f"also profile more than {MAX_CELLS} cells")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="instead of .perfci/profiles/COMMIT"
)
@click.option("--only-ranges", is_flag=True, help="run in NVTX ranges and write nothing, for nsys to record")
@wait_option
@json_option
@global_options
def command(
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
    """Profile benchmarks at REV (the working tree when absent): phases, kernels, operators, Python lines, a trace.

    Each matching cell runs in a fresh process of the measured environment, as it is measured, and nothing is stored.
    Exit code 0 all profiled or skipped with a reason, 1 some failed, 2 usage, 4 nothing profiled, 130 interrupted.
    """
    repository = current_repository()
    config = load_repository_config(repository)
    commit = repository.commit(repository.resolve(revision)) if revision else repository.working_tree_commit()
    progress = TerminalProgress()
    found: list[ProfiledCell] = []
    with open_workbench(repository, config, suite, smoke=smoke) as workbench:
        subject = prepare_scope(workbench, [commit], bench, progress.report)
        require_few_cells(subject.cells, bench, all_cells)
        folder = None if only_ranges else out or repository.private_folder / "profiles" / commit.short_sha
        owner = f"perfci profile in {config.root}"
        with machine_lock(config.lock_path, owner=owner, wait=not no_wait, on_wait=progress.report):
            progress.report(
                f"profiling {format_count(len(subject.cells), 'cell')} at {commit.short_sha} {commit.subject}"
            )
            try:
                for profiled in profile_cells(workbench, commit, subject.cells, folder):
                    found.append(profiled)
                    if json_file != "-":
                        click.echo(
                            "\n".join(
                                format_profile(
                                    profiled, ProfileCommandLine(revision and commit.sha, suite, smoke)
                                )
                            )
                        )
            except KeyboardInterrupt:
                progress.report("interrupted; the profiles shown are complete")
                return 130
    if json_file:
        write_json(
            json_file, {"commit": commit, "profiles": [serialize_profile(profiled) for profiled in found]}
        )
    return exit_code(found)


def require_few_cells(cells: Sequence[Cell], bench: str, all_cells: bool) -> None:
    if len(cells) > MAX_CELLS and not all_cells:
        likely = next((cell for cell in cells if cell.benchmark.endswith(".measure_training")), cells[0])
        asked = f"--bench {bench!r} matches" if bench else "the suite has"
        raise PerfciError(
            f"{asked} {len(cells)} cells, and each would be profiled; narrow it to {MAX_CELLS} or fewer, for example "
            f"--bench {shlex.quote(cell_regex(likely))}, or give --all"
        )


def cell_regex(cell: Cell) -> str:
    """An expression for this cell that a shell's quotes can hold; a dot stands for those in the name."""
    return f"^{re.escape(cell.name)}$".replace("'", ".").replace(r"\ ", " ")


def format_profile(cell_profile: ProfiledCell, command_line: ProfileCommandLine) -> Iterator[str]:
    """What a person reads of one cell."""
    name = make_printable(cell_profile.cell.name)
    if cell_profile.status is not Status.OK:
        yield f"{name}: {'not profiled' if cell_profile.status is Status.SKIPPED else cell_profile.status}: {cell_profile.reason}\n"
        return
    if cell_profile.tables is None or cell_profile.folder is None:
        yield f"{name}: ran in NVTX ranges\n"
        return
    yield name
    yield from format_tables(cell_profile.tables)
    yield f"{relative_path(cell_profile.folder / TRACE_FILE)} opens in {VIEWERS}; {TABLES_FILE} beside it holds these tables, longer"
    if cell_profile.tables.kind == "cuda":
        yield f"the ranges in Nsight Systems: {nsys_command(cell_profile.cell, cell_profile.folder, command_line)}"
    yield ""


def format_tables(tables: ProfileReport) -> Iterator[str]:
    scale = choose_scale([tables.seconds], "seconds")
    parts = [f"an operator ran for {format_percent(tables.in_operators)} of it"]
    parts += [f"a kernel for {format_percent(tables.busy)}"] if tables.busy is not None else []
    yield f"{format_count(tables.calls, 'call')} of {scale.format_value(tables.seconds)} on {tables.device}; {', '.join(parts)}\n"
    if tables.phases:
        yield format_phase_table(tables, scale)
    else:
        yield "phases: it marks none (the training and generation of a ModelBench do)\n"
    if tables.kernels:
        yield format_table(("kernel", "device time", "share", "calls"), tables.kernels, scale)
    else:
        yield f"kernels: {tables.missing.get('kernels', 'none')}\n"
    yield format_table(("operator", "self time", "share", "calls"), tables.operators, scale)
    yield format_table(("line", "CPU time", "share", ""), tables.lines, scale)


def format_phase_table(tables: ProfileReport, scale: DisplayScale) -> str:
    """The host's time in every phase beside the device's of what was launched in it."""
    on_device = {row.name: row for row in tables.device_phases}
    rows = []
    for row in tables.phases:
        device = on_device.get(row.name)
        host = (row.name, scale.format_value(row.seconds), format_percent(row.share))
        rows.append(
            (
                *host,
                *((scale.format_value(device.seconds), format_percent(device.share)) if device else ("", "")),
            )
        )
    return align_table(("phase", "host time", "share", "device time", "share"), rows) + "\n"


def format_table(headings: tuple[str, str, str, str], rows: Sequence[ProfileRow], scale: DisplayScale) -> str:
    if not rows:
        return f"{headings[0]}s: none was seen\n"
    shown = [
        (
            truncate_name(make_printable(row.name)),
            scale.format_value(row.seconds),
            format_percent(row.share),
            format_number(row.calls) if row.calls else "",
        )
        for row in rows[:MAX_ROWS_SHOWN]
    ]
    return align_table(headings, shown) + "\n"


def truncate_name(name: str) -> str:
    return name if len(name) <= MAX_NAME_WIDTH else name[: MAX_NAME_WIDTH - 1] + "…"


def relative_path(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def nsys_command(cell: Cell, folder: Path, command_line: ProfileCommandLine) -> str:
    """The same cell once more under nsys: two profilers cannot record one process, so ours only opens the ranges."""
    again = [
        "perfci",
        "profile",
        *([command_line.revision] if command_line.revision else []),
        "--bench",
        cell_regex(cell),
    ]
    again += ["--suite", str(command_line.suite)] if command_line.suite else []
    again += ["--smoke"] if command_line.smoke else []
    recorder = [
        "nsys",
        "profile",
        "--trace=cuda,nvtx",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--force-overwrite=true",
        f"--output={relative_path(folder / 'nsys')}",
    ]
    return shlex.join([*recorder, *again, "--only-ranges"])


def serialize_profile(cell_profile: ProfiledCell) -> Mapping[str, object]:
    """The same for programs."""
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


def exit_code(cell_profiles: Sequence[ProfiledCell]) -> int:
    if not any(profiled.status is Status.OK for profiled in cell_profiles):
        return 4
    return 0 if all(profiled.status in (Status.OK, Status.SKIPPED) for profiled in cell_profiles) else 1
