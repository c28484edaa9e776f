"""Read JSON of Google Benchmark (``--benchmark_out_format=json``): repetitions are samples of one process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfci.formats import unit_conversion
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
from perfci.model import Clock, Machine, Metric, NamedValues, PerfciError, ProcessBoundaries, Status

TOOL = "google-benchmark"

CLOCKS = {"real_time": ("time", Clock.WALL), "cpu_time": ("cpu_time", Clock.CPU)}

RATES = {
    "bytes_per_second": Metric("bytes_per_second", "bytes/s", "higher"),
    "items_per_second": Metric("items_per_second", "items/s", "higher"),
}
"""Counters that the library computes from the time: shown, but not judged a second time."""

AGGREGATES = {"mean", "median", "stddev", "cv", "BigO", "RMS", "min", "max"}
"""Rows that the library computed from others; before 1.5 only the suffix of a row's name identifies them."""

LETTER_OF_CACHE = {"Data": "d", "Instruction": "i"}

KNOWN_FIELDS = {
    *(
        "name",
        "family_index",
        "per_family_instance_index",
        "run_name",
        "run_type",
        "repetitions",
        "repetition_index",
    ),
    *(
        "threads",
        "iterations",
        "real_time",
        "cpu_time",
        "time_unit",
        "label",
        "error_occurred",
        "error_message",
    ),
    *("skipped", "skip_message", "aggregate_name", "aggregate_unit", "allocs_per_iter", "max_bytes_used"),
    *("big_o", "rms", "cpu_coefficient", "real_coefficient", "net_heap_growth", "total_allocated_bytes"),
}


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.has_keys("context/num_cpus", "benchmarks")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run: two clocks are two metrics; user counters have no unit, so they are unresolved."""
    content, body = read_json_and_bytes(path)
    context, rows = (
        dict_or_empty(dict_or_empty(content).get("context")),
        dict_or_empty(content).get("benchmarks"),
    )
    if not isinstance(rows, list):
        raise PerfciError(f"{path} is not a file of {TOOL}: it has no list of benchmarks.")
    run = RunBuilder(
        TOOL,
        str(path),
        defaults,
        warn,
        started_at=parse_time(context.get("date")) or file_modified_at(path),
        environment=to_text_pairs(
            {name: context.get(name) for name in ("num_cpus", "mhz_per_cpu", "cpu_scaling_enabled")}
        ),
        machine=None if defaults.machine else _parse_machine(context),
        variant=to_text_pairs({"build": context.get("library_build_type")}),
    )
    if context.get("cpu_scaling_enabled") is True:
        warn("the clock of the CPU was not fixed (cpu_scaling_enabled)")
    for (name, parameters), repetitions in _group_repetitions(rows).items():
        _add_benchmark(run, name, parameters, repetitions)
    yield run.build(body)


def _parse_machine(context: Mapping[str, Any]) -> Machine | None:
    """Return the machine class: the number of CPUs and their caches, since the model is not written.

    The host's name and the clock differ between machines of one class, and between two runs of one machine.
    """
    cores = parse_count(context.get("num_cpus"))
    if cores is None:
        return None
    caches = [
        f"L{cache.get('level')}{LETTER_OF_CACHE.get(to_text(cache.get('type')), '')} {size / 1024:g} KiB"
        for cache in map(dict_or_empty, list_or_empty(context.get("caches")))
        if (size := parse_finite(cache.get("size")))
    ]
    return Machine(cpu=f"CPU with {', '.join(caches)}" if caches else "", cores=cores)


def _group_repetitions(rows: Iterable[object]) -> dict[tuple[str, NamedValues], list[Mapping[str, Any]]]:
    """Group the repetitions by benchmark and parameters; aggregate rows are dropped."""
    repetitions: dict[tuple[str, NamedValues], list[Mapping[str, Any]]] = defaultdict(list)
    for row in map(dict_or_empty, rows):
        name_suffix = to_text(row.get("name")).rpartition("_")[2]
        is_aggregate = row.get("run_type") == "aggregate" or (
            "run_type" not in row and name_suffix in AGGREGATES
        )
        if not is_aggregate:
            repetitions[_parse_name(row)].append(row)
    return repetitions


def _add_benchmark(
    run: RunBuilder, name: str, parameters: NamedValues, rows: Sequence[Mapping[str, Any]]
) -> None:
    # SkipWithError writes error_occurred, SkipWithMessage skipped.
    good = [row for row in rows if not (row.get("error_occurred") is True or row.get("skipped"))]
    if not good:
        message = to_text(rows[0].get("error_message")) or to_text(rows[0].get("skip_message"))
        status = Status.FAILED if rows[0].get("error_occurred") is True else Status.SKIPPED
        run.add_result_without_value(
            name, parameters, Metric("time", "seconds"), status, message or "the benchmark gave no reason"
        )
        return
    number = parse_count(good[0].get("iterations"), 2**63)
    scale = unit_conversion.find_unit_conversion(to_text(good[0].get("time_unit")) or "ns")
    for field, (metric, clock) in CLOCKS.items():
        values = _finite_values(good, field)
        if values and scale is not None:
            seconds = map(scale.convert, values)
            run.add_result_from_samples(
                name, parameters, Metric(metric, "seconds"), seconds, clock, number=number
            )
    _add_counters(run, name, parameters, good)


def _add_counters(
    run: RunBuilder, name: str, parameters: NamedValues, good: Sequence[Mapping[str, Any]]
) -> None:
    """Add user counters, which stand among the fields of a row as if they were its own."""
    for field in dict.fromkeys(field for row in good for field in row if field not in KNOWN_FIELDS):
        if field in RATES:
            run.add_result_from_samples(
                name, parameters, RATES[field], _finite_values(good, field), Clock.INFORMATIONAL
            )
        elif values := _finite_values(good, field):
            reason = "counters have no unit or direction in this format"
            run.add_unresolved_result(
                name,
                parameters,
                field,
                values,
                Clock.VALUE,
                good[0],
                reason,
                boundaries=ProcessBoundaries.PROCESS,
            )


def _finite_values(rows: Iterable[Mapping[str, Any]], field: str) -> list[float]:
    return [number for row in rows if (number := parse_finite(row.get(field))) is not None]


def _parse_name(row: Mapping[str, Any]) -> tuple[str, NamedValues]:
    """Split a name such as ``BM_Copy/64/size:8/real_time`` into benchmark and parameters.

    ``64`` is an unnamed argument and ``size:8`` a named one; ``real_time`` is a setting and dropped.
    """
    name, *rest = (to_text(row.get("run_name")) or to_text(row.get("name"))).split("/")
    parameters = []
    for place, part in enumerate(rest, start=1):
        key, colon, value = part.partition(":")
        if colon:
            parameters.append((key, value))
        elif part not in ("real_time", "process_time", "manual_time"):
            parameters.append((f"arg{place}", part))
    return name, tuple(dict(parameters).items())
