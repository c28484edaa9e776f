"""Read JSON of pytest-benchmark (``--benchmark-json``, ``--benchmark-save``): one process, many rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.metric_identification import explain_unresolved_unit, identify_metric
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    build_valid_commit,
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
from perfci.model import (
    Clock,
    Machine,
    Metric,
    NamedValues,
    PerfciError,
    ProcessBoundaries,
    SampleSummary,
    Status,
)

TOOL = "pytest-benchmark"

CPU_TIMERS = ("process_time", "thread_time")
"""Timers that count CPU seconds; all others measure wall-clock time."""

TIME_METRICS = ("time", "cpu_time")
"""What a benchmark itself measures."""

ENVIRONMENT_FIELDS = ("python_version", "python_compiler", "machine", "system", "release")


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.has_keys("machine_info", "commit_info")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run, a session of pytest; saved rounds are its samples, otherwise only a summary is read."""
    content, body = read_json_and_bytes(path)
    content = dict_or_empty(content)
    if not isinstance(content.get("benchmarks"), list):
        raise PerfciError(f"{path} is not a file of {TOOL}: it has no list of benchmarks.")
    commit_info = dict_or_empty(content.get("commit_info"))
    machine_info = dict_or_empty(content.get("machine_info"))
    versions = {name: machine_info.get(name) for name in ENVIRONMENT_FIELDS}
    branch = to_text(commit_info.get("branch"))
    commit = build_valid_commit(
        commit_info.get("id"),
        committed_at=parse_time(commit_info.get("time")),
        branch="" if branch.startswith("(") else branch,  # "(detached head)"
        dirty=commit_info.get("dirty") is True,
    )
    run = RunBuilder(
        TOOL,
        str(path),
        defaults,
        warn,
        started_at=parse_time(content.get("datetime")) or file_modified_at(path),
        commit=commit,
        machine=_parse_machine(machine_info),
        environment=to_text_pairs(versions | {TOOL: content.get("version")}),
        variant=_read_variant(machine_info),
    )
    if commit and commit.dirty:
        warn("measured with uncommitted changes: stored, but excluded from the history")
    for entry in content["benchmarks"]:
        _add_benchmark(run, dict_or_empty(entry), warn)
    yield run.build(body)


def _add_benchmark(run: RunBuilder, entry: Mapping[str, Any], warn: WarnCallback) -> None:
    stats, options = dict_or_empty(entry.get("stats")), dict_or_empty(entry.get("options"))
    name, parameters = _parse_name(entry)
    cpu = to_text(options.get("timer")).rpartition(".")[2] in CPU_TIMERS
    metric = Metric("cpu_time" if cpu else "time", "seconds")
    median, data = parse_finite(stats.get("median")), list_or_empty(stats.get("data"))
    if data:
        clock = Clock.CPU if cpu else Clock.WALL
        run.add_result_from_samples(
            name, parameters, metric, data, clock, number=parse_count(stats.get("iterations"))
        )
    elif median is not None:
        warn("rounds were not saved: give --benchmark-save-data, or no pair of commits can be compared")
        quartiles = parse_finite(stats.get("q1")), parse_finite(stats.get("q3"))
        run.add_result_from_summary(
            name,
            parameters,
            metric,
            SampleSummary(median, q25=quartiles[0], q75=quartiles[1], n=parse_count(stats.get("rounds"))),
        )
    else:
        run.add_result_without_value(name, parameters, metric, Status.FAILED, "the benchmark has no numbers")
    _add_extra_info(run, name, parameters, dict_or_empty(entry.get("extra_info")), warn)


def _add_extra_info(
    run: RunBuilder, name: str, parameters: NamedValues, extra_info: Mapping[str, Any], warn: WarnCallback
) -> None:
    """Add numbers of ``extra_info`` as metrics; unit and direction follow from the name or are unknown."""
    for field, value in extra_info.items():
        if parse_finite(value) is None:
            warn(f"extra_info {field[:60]!a} is no number: not kept")
            continue
        known_metric = identify_metric(field)
        if known_metric is None or known_metric.metric.name in TIME_METRICS:
            reason = explain_unresolved_unit(field, "")
            run.add_unresolved_result(
                name,
                parameters,
                field,
                [value],
                Clock.VALUE,
                extra_info,
                reason,
                boundaries=ProcessBoundaries.PROCESS,
            )
        else:
            number = known_metric.conversion.convert(value)
            run.add_result_from_samples(name, parameters, known_metric.metric, [number], Clock.VALUE)


def _parse_name(entry: Mapping[str, Any]) -> tuple[str, NamedValues]:
    """Split a name into ``test_sort.py::test_sort`` and parameters, which its suffix in brackets repeats."""
    name, shown = to_text(entry.get("fullname")) or to_text(entry.get("name")), to_text(entry.get("param"))
    parameters = to_text_pairs(dict_or_empty(entry.get("params"))) or ((("param", shown),) if shown else ())
    return name.removesuffix(f"[{shown}]") if shown else name, parameters


def _parse_machine(info: Mapping[str, Any]) -> Machine | None:
    cpu = dict_or_empty(info.get("cpu"))
    brand = to_text(cpu.get("brand_raw")) or to_text(cpu.get("brand"))
    return Machine(cpu=brand, cores=parse_count(cpu.get("count"))) if brand else None


def _read_variant(info: Mapping[str, Any]) -> NamedValues:
    """Return Python x.y as the variant, with the name of an interpreter other than CPython before it."""
    version = ".".join(to_text(info.get("python_version")).split(".")[:2])
    kind = to_text(info.get("python_implementation"))
    return to_text_pairs({"python": version if kind in ("", "CPython") else f"{kind} {version}"})
