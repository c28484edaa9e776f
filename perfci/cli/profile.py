"""``perfci profile [REV] --bench REGEX``: where the time of a benchmark goes, as tables and a trace to open."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from perfci.cli.shared.context import config_for, repository_here, write_json
from perfci.cli.shared.options import bench_option, global_options, json_option, smoke_option, suite_option, wait_option
from perfci.cli.shared.terminal_progress import Progress
from perfci.measure.open_session import open_subject, open_workbench
from perfci.measure.profiles import TABLES, TRACE, Profiled, Row, Tables, profile_cells
from perfci.model import PerfciError, Status
from perfci.report.escaping import printable
from perfci.report.number_format import Scale, counting, number, percent, scale_of
from perfci.report.text_tables import aligned
from perfci.runner.frozen_suite import Cell
from perfci.runner.locks import machine_lock

MOST_CELLS = 10
ROWS_SHOWN = 10
WIDEST_NAME = 88

VIEWERS = "https://ui.perfetto.dev or chrome://tracing"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was typed, as far as another command line has to repeat it."""

    revision: str
    suite: Path | None
    smoke: bool


@click.command("profile")
@click.argument("revision", default="", metavar="[REV]")
@suite_option
@bench_option
@smoke_option
@click.option("--all", "every", is_flag=True, help=f"also profile more than {MOST_CELLS} cells")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="instead of .perfci/profiles/COMMIT")
@click.option("--only-ranges", is_flag=True, help="run in NVTX ranges and write nothing, for nsys to record")
@wait_option
@json_option
@global_options
def command(
    revision: str, suite: Path | None, bench: str, smoke: bool, every: bool, out: Path | None, only_ranges: bool,
    no_wait: bool, json_file: str | None,
) -> int:  # fmt: skip
    """Profile benchmarks at REV (the working tree when absent): phases, kernels, operators, Python lines, a trace.

    Each matching cell runs in a fresh process of the measured environment, as it is measured, and nothing is stored.
    Exit code 0 all profiled or skipped with a reason, 1 some failed, 2 usage, 4 nothing profiled, 130 interrupted.
    """
    repository = repository_here()
    config = config_for(repository)
    commit = repository.commit(repository.resolve(revision)) if revision else repository.working_tree()
    progress = Progress()
    found: list[Profiled] = []
    with open_workbench(repository, config, suite, smoke=smoke) as workbench:
        subject = open_subject(workbench, [commit], bench, progress.say)
        require_few(subject.cells, bench, every)
        folder = None if only_ranges else out or repository.private / "profiles" / commit.short
        owner = f"perfci profile in {config.root}"
        with machine_lock(config.lock_path, owner=owner, wait=not no_wait, waiting=progress.say):
            progress.say(f"profiling {counting(len(subject.cells), 'cell')} at {commit.short} {commit.subject}")
            try:
                for profiled in profile_cells(workbench, commit, subject.cells, folder):
                    found.append(profiled)
                    if json_file != "-":
                        click.echo("\n".join(lines(profiled, Asked(revision and commit.sha, suite, smoke))))
            except KeyboardInterrupt:
                progress.say("interrupted; the profiles shown are complete")
                return 130
    if json_file:
        write_json(json_file, {"commit": commit, "profiles": [fields(profiled) for profiled in found]})
    return exit_code(found)


def require_few(cells: Sequence[Cell], bench: str, every: bool) -> None:
    if len(cells) > MOST_CELLS and not every:
        likely = next((cell for cell in cells if cell.benchmark.endswith(".measure_training")), cells[0])
        asked = f"--bench {bench!r} matches" if bench else "the suite has"
        raise PerfciError(
            f"{asked} {len(cells)} cells, and each would be profiled; narrow it to {MOST_CELLS} or fewer, for example "
            f"--bench {shlex.quote(exactly(likely))}, or give --all"
        )


def exactly(cell: Cell) -> str:
    """An expression for this cell that a shell's quotes can hold; a dot stands for those in the name."""
    return f"^{re.escape(cell.name)}$".replace("'", ".").replace(r"\ ", " ")


def lines(profiled: Profiled, asked: Asked) -> Iterator[str]:
    """What a person reads of one cell."""
    name = printable(profiled.cell.name)
    if profiled.status is not Status.OK:
        yield f"{name}: {'not profiled' if profiled.status is Status.SKIPPED else profiled.status}: {profiled.reason}\n"
        return
    if profiled.tables is None or profiled.folder is None:
        yield f"{name}: ran in NVTX ranges\n"
        return
    yield name
    yield from table_lines(profiled.tables)
    yield f"{shown_path(profiled.folder / TRACE)} opens in {VIEWERS}; {TABLES} beside it holds these tables, longer"
    if profiled.tables.kind == "cuda":
        yield f"the ranges in Nsight Systems: {nsys(profiled.cell, profiled.folder, asked)}"
    yield ""


def table_lines(tables: Tables) -> Iterator[str]:
    scale = scale_of([tables.seconds], "seconds")
    parts = [f"an operator ran for {percent(tables.in_operators)} of it"]
    parts += [f"a kernel for {percent(tables.busy)}"] if tables.busy is not None else []
    yield f"{counting(tables.calls, 'call')} of {scale.text(tables.seconds)} on {tables.device}; {', '.join(parts)}\n"
    if tables.phases:
        yield phase_table(tables, scale)
    else:
        yield "phases: it marks none (the training and generation of a ModelBench do)\n"
    if tables.kernels:
        yield table(("kernel", "device time", "share", "calls"), tables.kernels, scale)
    else:
        yield f"kernels: {tables.missing.get('kernels', 'none')}\n"
    yield table(("operator", "self time", "share", "calls"), tables.operators, scale)
    yield table(("line", "CPU time", "share", ""), tables.lines, scale)


def phase_table(tables: Tables, scale: Scale) -> str:
    """The host's time in every phase beside the device's of what was launched in it."""
    on_device = {row.name: row for row in tables.device_phases}
    rows = []
    for row in tables.phases:
        device = on_device.get(row.name)
        host = (row.name, scale.text(row.seconds), percent(row.share))
        rows.append((*host, *((scale.text(device.seconds), percent(device.share)) if device else ("", ""))))
    return aligned(("phase", "host time", "share", "device time", "share"), rows) + "\n"


def table(headings: tuple[str, str, str, str], rows: Sequence[Row], scale: Scale) -> str:
    if not rows:
        return f"{headings[0]}s: none was seen\n"
    shown = [
        (cut(printable(row.name)), scale.text(row.seconds), percent(row.share), number(row.calls) if row.calls else "")
        for row in rows[:ROWS_SHOWN]
    ]
    return aligned(headings, shown) + "\n"


def cut(name: str) -> str:
    return name if len(name) <= WIDEST_NAME else name[: WIDEST_NAME - 1] + "…"


def shown_path(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def nsys(cell: Cell, folder: Path, asked: Asked) -> str:
    """The same cell once more under nsys: two profilers cannot record one process, so ours only opens the ranges."""
    again = ["perfci", "profile", *([asked.revision] if asked.revision else []), "--bench", exactly(cell)]
    again += ["--suite", str(asked.suite)] if asked.suite else []
    again += ["--smoke"] if asked.smoke else []
    recorder = [
        "nsys", "profile", "--trace=cuda,nvtx", "--capture-range=cudaProfilerApi", "--capture-range-end=stop",
        "--force-overwrite=true", f"--output={shown_path(folder / 'nsys')}",
    ]  # fmt: skip
    return shlex.join([*recorder, *again, "--only-ranges"])


def fields(profiled: Profiled) -> Mapping[str, object]:
    """The same for programs."""
    folder = profiled.folder
    return {
        "cell": profiled.cell.name,
        "benchmark": profiled.cell.benchmark,
        "parameters": dict(profiled.cell.parameters),
        "status": profiled.status,
        "reason": profiled.reason,
        "trace": folder and str(folder / TRACE),
        "tables": profiled.tables,
    }


def exit_code(found: Sequence[Profiled]) -> int:
    if not any(profiled.status is Status.OK for profiled in found):
        return 4
    return 0 if all(profiled.status in (Status.OK, Status.SKIPPED) for profiled in found) else 1
