"""``perfci wrap -- python train.py``: measure the steps of any script at the current commit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option, wait_option
from perfci.cli.shared.repository_and_config import current_repository, load_repository_config
from perfci.cli.shared.store_and_machine_lock import lock_machine_and_open_store
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.formats.training_step_log import STEP_FIELDS
from perfci.measure.measure_script import (
    INFORMATIONAL_METRICS,
    STEPS_VARIABLE,
    WARMUP_RULE,
    ScriptProcess,
    ScriptRunResult,
    measure_script,
)
from perfci.model import PerfciError, Status, cell_name
from perfci.number_format import format_count, format_duration, format_quantity, format_signed_percent
from perfci.report.serializers import serialize_change_size
from perfci.runner.user_script import parse_script_command

SNIPPET = f"""\
import json, os, time
steps = open(os.environ.get("{STEPS_VARIABLE}", os.devnull), "a")  # once, before the loop
print(json.dumps({{"step": step, "t": time.perf_counter()}}), file=steps, flush=True)  # after every step"""

MAX_FAULTS_SHOWN = 3

MAX_NAME_LENGTH = 200


# Options that follow the script's name are the script's.
@click.command("wrap", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--name", default="", metavar="NAME", help="name of the benchmark  [default: wrap. and the script's name]"
)
@click.option(
    "--steps", type=click.Path(path_type=Path), metavar="FILE", help="where the script writes its steps"
)
@click.option(
    "--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="how many processes"
)
@wait_option
@json_option
@global_options
def wrap_command(
    command: tuple[str, ...], name: str, steps: Path | None, repeat: int, no_wait: bool, json_file: str | None
) -> int:
    """Run a script, read the steps it writes and store them as a run of the current commit.

    The script writes one JSON object per step to the file that the variable PERFCI_STEPS names: {"step": 7,
    "t": seconds of any clock} or "step_time", and optionally "tokens", "loss", "data_time" and "memory"
    (bytes). Exit code 0 measured, 1 the script failed, 2 usage, 4 nothing measured, 130 interrupted.
    """
    if name and not (name.strip() and name.isprintable() and len(name) <= MAX_NAME_LENGTH):
        raise PerfciError(f"{name!r} cannot be a benchmark's name; give --name a short printable one")
    if steps and (steps.is_dir() or not steps.absolute().parent.is_dir()):
        raise PerfciError(
            f"--steps {steps} cannot be written by the script; name a file in a folder that is there"
        )
    script = parse_script_command(command)
    repository = current_repository()
    config = load_repository_config(repository)
    progress = TerminalProgress()
    commit = repository.snapshot_working_tree()
    with lock_machine_and_open_store(config, "perfci wrap", progress, no_wait=no_wait) as store:
        result = measure_script(
            store,
            config,
            script,
            commit,
            name=name,
            steps=steps,
            repeat=repeat,
            # Standard output is the JSON's: what the script prints goes to standard error.
            output=sys.stderr.fileno() if json_file == "-" else None,
            on_process_end=lambda index, wrapped: print_script_process(index, wrapped, repeat, progress),
        )
    write_script_report(result, json_file)
    return script_exit_code(result)


def print_script_process(
    index: int, script_process: ScriptProcess, repeat: int, progress: TerminalProgress
) -> None:
    """Print how one process ended, and which of its lines could not be read."""
    outcome = "interrupted" if script_process.interrupted else script_process.status
    reason = f": {script_process.reason}" if script_process.reason else ""
    took = f"{format_count(script_process.steps, 'step')} in {format_duration(script_process.wall_s)}"
    progress.report(f"process {index + 1} of {repeat}: {outcome}{reason}, {took}")
    faults, unused = script_process.log.errors, script_process.log.unknown_keys
    for fault in faults[:MAX_FAULTS_SHOWN]:
        progress.report(f"  {fault}")
    if len(faults) > MAX_FAULTS_SHOWN:
        progress.report(f"  and {format_count(len(faults) - MAX_FAULTS_SHOWN, 'more line')} like these")
    if unused and index == 0:
        progress.report(f"  unused fields: {', '.join(unused)} (perfci reads {', '.join(STEP_FIELDS)})")


def write_script_report(result: ScriptRunResult, json_file: str | None) -> None:
    """Write the result as JSON and text, or why there is none."""
    if json_file:
        write_json(json_file, serialize_script_result(result))
    if not result.levels_by_metric and not any(
        wrapped.status is not Status.OK for wrapped in result.processes
    ):
        click.echo(f"perfci: {explain_missing_steps(result.processes[-1])}", err=True)
    elif json_file != "-":
        click.echo("\n".join(format_script_result(result)))


def explain_missing_steps(script_process: ScriptProcess) -> str:
    """Why a script gave no step times, and what to do about it."""
    if script_process.interrupted:
        return "interrupted before a step was timed; nothing is stored"
    if script_process.steps:
        steps = format_count(script_process.steps, "step")
        return (
            f"none of the {steps} has a time, so nothing was measured; give every line "
            'the "step_time" in seconds, or "t", whose differences are the times'
        )
    return (
        f"no step was written to the file that {STEPS_VARIABLE} names, so nothing was measured; "
        f"add these three lines to the script:\n\n{SNIPPET}"
    )


def format_script_result(result: ScriptRunResult) -> Iterator[str]:
    """The summary: the benchmark, one line per metric, the store, and changes in its history."""
    name = cell_name(result.benchmark, result.parameters)
    yield f"{name} at {result.commit.short_sha} {result.commit.subject}"
    if result.levels_by_metric:
        yield from format_metric_medians(result)
    yield f"stored in {result.stored_in}; `perfci serve` shows it"
    if result.commit.dirty:
        yield (
            "files differ from HEAD (`git status` lists them), so this is stored as uncommitted changes, "
            "which no history takes in"
        )
    last_moves = {move.series.metric.name: move for move in result.change_points}
    for metric, move in last_moves.items():
        yield f"{metric} last changed by {format_signed_percent(move.relative_change)} at {move.commit[:10]}"


def format_metric_medians(result: ScriptRunResult) -> Iterator[str]:
    """The level of every metric: the median over processes, and their range."""
    steps = sum(wrapped.steps for wrapped in result.processes)
    dropped = sum(wrapped.warmup_steps for wrapped in result.processes)
    processes = format_count(len(result.processes), "process", "processes")
    step_count = format_count(steps, "step")
    yield f"{processes}, {step_count}, {dropped} of them dropped as warm-up ({WARMUP_RULE})\n"
    width = max(len(metric.name) for metric in result.levels_by_metric)
    for metric, levels in result.levels_by_metric.items():
        lowest, highest = (
            format_quantity(level, metric.unit, metric.name) for level in (min(levels), max(levels))
        )
        notes = [f"{lowest} to {highest}"] if lowest != highest else []
        notes += ["informational, not judged"] if metric in INFORMATIONAL_METRICS else []
        line = f"  {metric.name:<{width}}  {format_quantity(median(levels), metric.unit, metric.name)}"
        yield line + (f"  ({', '.join(notes)})" if notes else "")
    yield ""


def serialize_script_result(result: ScriptRunResult) -> dict[str, object]:
    """The result as plain JSON values."""
    return {
        "benchmark": result.benchmark,
        "parameters": dict(result.parameters),
        "commit": result.commit,
        "session": result.session,
        "stored_in": result.stored_in,
        "processes": [
            {
                "status": wrapped.status,
                "reason": wrapped.reason,
                "exit_code": wrapped.exit_code,
                "interrupted": wrapped.interrupted,
                "steps": wrapped.steps,
                "warmup_steps": wrapped.warmup_steps,
                "wall_s": wrapped.wall_s,
                "faults": wrapped.log.errors,
            }
            for wrapped in result.processes
        ],
        "metrics": [
            {
                "metric": metric.name,
                "unit": metric.unit,
                "direction": metric.direction,
                "judged": metric not in INFORMATIONAL_METRICS,
                "value": float(median(levels)),
                "levels": levels,
            }
            for metric, levels in result.levels_by_metric.items()
        ],
        "change_points": [
            {
                "metric": move.series.metric.name,
                "commit": move.commit,
                "last_good": move.last_good,
                **serialize_change_size(move),
            }
            for move in result.change_points
        ],
    }


def script_exit_code(result: ScriptRunResult) -> int:
    """130 interrupted, 1 the script failed, 4 nothing measured, else 0."""
    if any(wrapped.interrupted for wrapped in result.processes):
        return 130
    if any(wrapped.status is not Status.OK for wrapped in result.processes):
        return 1
    return 0 if result.levels_by_metric else 4
