"""Read JSON of hyperfine (``--export-json``): every run of a command is one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    dict_or_empty,
    file_modified_at,
    list_or_empty,
    parse_finite,
    read_json_and_bytes,
    to_text,
    to_text_pairs,
)
from perfci.model import Clock, Metric, NamedValues, PerfciError, SampleSummary, Status

TOOL = "hyperfine"

TIME_METRIC = Metric("time", "seconds")


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.has_keys("results/[]/command", "results/[]/user", "results/[]/system")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run: ``times`` are processes; CPU seconds are only known on average: shown, not judged."""
    content, body = read_json_and_bytes(path)
    results = dict_or_empty(content).get("results")
    if not isinstance(results, list):
        raise PerfciError(f"{path} is not a file of {TOOL}: it has no list of results.")
    run = RunBuilder(TOOL, str(path), defaults, warn, started_at=file_modified_at(path))
    for entry in results:
        _add_command(run, dict_or_empty(entry), warn)
    yield run.build(body)


def _add_command(run: RunBuilder, entry: Mapping[str, Any], warn: WarnCallback) -> None:
    command, parameters = (
        to_text(entry.get("command")),
        to_text_pairs(dict_or_empty(entry.get("parameters"))),
    )
    name = _command_template(parameters, command)
    ended = [code for code in list_or_empty(entry.get("exit_codes")) if code != 0]
    times, median = list_or_empty(entry.get("times")), parse_finite(entry.get("median"))
    if not command:
        return warn("a result without a command was skipped")
    if ended:
        # hyperfine writes null where a signal ended the command.
        code = "was ended by a signal" if ended[0] is None else f"ended with exit code {ended[0]}"
        return run.add_result_without_value(
            name, parameters, TIME_METRIC, Status.FAILED, f"the command {code}"
        )
    if times:
        run.add_result_from_samples(name, parameters, TIME_METRIC, times, Clock.WALL, process_per_sample=True)
    elif median is not None:
        run.add_result_from_summary(name, parameters, TIME_METRIC, SampleSummary(median))
    cpu = [parse_finite(entry.get("user")), parse_finite(entry.get("system"))]
    if cpu[0] is not None and cpu[1] is not None:
        run.add_result_from_samples(
            name, parameters, Metric("mean_cpu_time", "seconds"), [cpu[0] + cpu[1]], Clock.INFORMATIONAL
        )
    return None


def _command_template(parameters: NamedValues, command: str) -> str:
    """Restore the command's template with ``{name}`` for each parameter: its cells are one benchmark."""
    words = command.split(" ")
    for name, value in parameters:
        words = [f"{{{name}}}" if word == value else word for word in words]
    return " ".join(words)
