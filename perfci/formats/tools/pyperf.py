"""Read JSON of pyperf (``-o FILE``): every run is a process, its values are the samples."""

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
    parse_count,
    parse_finite,
    parse_time,
    read_json_and_bytes,
    to_text,
    to_text_pairs,
)
from perfci.model import Clock, Machine, Metric, PerfciError, Process, Status

TOOL = "pyperf"

METRICS = {
    "second": (Metric("time", "seconds"), Clock.WALL),
    "byte": (Metric("memory", "bytes"), Clock.VALUE),
}
"""Metric and clock by the unit of a benchmark, which is seconds unless it says another one."""

ENVIRONMENT_FIELDS = (
    *("pyperf_version", "python_version", "python_compiler", "timer", "platform"),
    *("cpu_affinity", "cpu_config", "aslr", "boot_time"),
)


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.has_keys("benchmarks/[]/runs")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run; metadata that all benchmarks share stands once in the file."""
    content, body = read_json_and_bytes(path)
    shared, benchmarks = (
        dict_or_empty(dict_or_empty(content).get("metadata")),
        dict_or_empty(content).get("benchmarks"),
    )
    if not isinstance(benchmarks, list):
        raise PerfciError(f"{path} is not a file of {TOOL}: it has no list of benchmarks.")
    metadata = [{**shared, **dict_or_empty(dict_or_empty(entry).get("metadata"))} for entry in benchmarks]
    facts = metadata[0] if metadata else shared
    started = [
        started_at
        for entry in map(dict_or_empty, benchmarks)
        for process in map(dict_or_empty, list_or_empty(entry.get("runs")))
        if (started_at := parse_time(dict_or_empty(process.get("metadata")).get("date")))
    ]
    cpu = to_text(facts.get("cpu_model_name"))
    run = RunBuilder(
        TOOL,
        str(path),
        defaults,
        warn,
        started_at=min(started, default=file_modified_at(path)),
        machine=Machine(cpu=cpu, cores=parse_count(facts.get("cpu_count"))) if cpu else None,
        environment=to_text_pairs({name: facts.get(name) for name in ENVIRONMENT_FIELDS}),
        variant=to_text_pairs({"python": _short_python_version(facts)}),
    )
    for entry, entry_metadata in zip(benchmarks, metadata, strict=True):
        _add_benchmark(run, dict_or_empty(entry), entry_metadata, warn)
    yield run.build(body)


def _add_benchmark(
    run: RunBuilder, entry: Mapping[str, Any], metadata: Mapping[str, Any], warn: WarnCallback
) -> None:
    name, unit = to_text(metadata.get("name")), to_text(metadata.get("unit")) or "second"
    if not name:
        return warn("a benchmark without a name was skipped")
    processes = []
    for process in map(dict_or_empty, list_or_empty(entry.get("runs"))):
        # Runs that only calibrate the loops have no values.
        values = [
            value for value in map(parse_finite, list_or_empty(process.get("values"))) if value is not None
        ]
        if values:
            processes.append((values, process))
    if unit not in METRICS:
        samples = [value for values, _ in processes for value in values]
        reason = f"the direction (lower or higher is better) of {name} in {unit} is unknown"
        return run.add_unresolved_result(
            name, (), "value", samples, Clock.VALUE, {"unit": unit}, reason, unit=unit
        )
    metric, clock = METRICS[unit]
    if not processes:
        return run.add_result_without_value(name, (), metric, Status.FAILED, "the benchmark has no values")
    return run.add_result_from_processes(
        name,
        (),
        metric,
        (
            Process(
                index,
                samples=tuple(values),
                clock=clock,
                started_at=parse_time(dict_or_empty(process.get("metadata")).get("date")),
                duration_s=parse_finite(dict_or_empty(process.get("metadata")).get("duration")),
            )
            for index, (values, process) in enumerate(processes)
        ),
    )


def _short_python_version(facts: Mapping[str, Any]) -> str:
    """Return ``3.11`` of ``3.11.7 (64-bit)``, with the name of another interpreter than CPython before it."""
    version = ".".join(to_text(facts.get("python_version")).split(" ")[0].split(".")[:2])
    kind = to_text(facts.get("python_implementation"))
    return version if kind in ("", "cpython") else f"{kind} {version}"
