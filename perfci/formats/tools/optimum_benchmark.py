"""Read JSON of optimum-benchmark: ``benchmark.json`` with its configuration, or ``benchmark_report.json``.

Written after optimum_benchmark/trackers of version 0.6.0. Its megabytes are 10^6 bytes (``/ 1e6`` there).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfci.formats import metric_identification, unit_conversion
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    dict_or_empty,
    file_modified_at,
    list_or_empty,
    parse_count,
    parse_finite,
    read_json_and_bytes,
    to_text,
    to_text_pairs,
)
from perfci.model import Clock, Machine, Metric, NamedValues, PerfciError, ProcessBoundaries, SampleSummary

TOOL = "optimum-benchmark"

MEASURED_QUANTITIES = ("memory", "latency", "throughput", "energy", "efficiency")

REPEATED_MEMORY = {"decode": "prefill", "generate": "prefill"}
"""Targets of text generation whose memory, where equal, only repeats that of another target."""

MB = 10**6

IGNORED_SETTINGS = {"name", "_target_", "version", "seed", "device_ids", "processor"}


def can_read(path: Path, outline: ContentOutline) -> bool:
    is_own = outline.has_path_ending("memory", "max_ram") or outline.has_path_ending("latency", "stdev_")
    return is_own and outline.has_path_ending("latency")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run: each target of the report is a benchmark, each measured quantity a metric."""
    content, body = read_json_and_bytes(path)
    content = dict_or_empty(content)
    config, report = dict_or_empty(content.get("config")), dict_or_empty(content.get("report", content))
    targets = {
        name: dict_or_empty(entry)
        for name, entry in report.items()
        if any(key in dict_or_empty(entry) for key in MEASURED_QUANTITIES)
    }
    if not targets:
        raise PerfciError(f"{path} is not a file of {TOOL}: no target of it has latency or memory.")
    if not config:
        warn(
            "a report alone does not say what was measured: "
            "read benchmark.json, which has the configuration too"
        )
    environment = dict_or_empty(config.get("environment"))
    run = RunBuilder(
        TOOL,
        str(path),
        defaults,
        warn,
        started_at=file_modified_at(path),
        machine=_parse_machine(environment, dict_or_empty(config.get("backend"))),
        environment=to_text_pairs(
            {name: value for name, value in environment.items() if name.endswith(("_version", "platform"))}
        ),
    )
    boundaries = _process_boundaries(config)
    for name, target in targets.items():
        _add_target(run, name, target, _read_parameters(config), boundaries, targets, warn)
    yield run.build(body)


def _add_target(
    run: RunBuilder,
    name: str,
    target: Mapping[str, Any],
    parameters: NamedValues,
    boundaries: ProcessBoundaries,
    targets: Mapping[str, Mapping[str, Any]],
    warn: WarnCallback,
) -> None:
    latency, memory = dict_or_empty(target.get("latency")), dict_or_empty(target.get("memory"))
    metric, mean = Metric("latency", "seconds"), parse_finite(latency.get("mean"))
    if values := list_or_empty(latency.get("values")):
        run.add_result_from_samples(name, parameters, metric, values, Clock.WALL, boundaries=boundaries)
    elif mean is not None:
        run.add_result_from_summary(name, parameters, metric, SampleSummary(mean))
    if memory and memory == dict_or_empty(targets.get(REPEATED_MEMORY.get(name, ""), {})).get("memory"):
        warn(f"memory of {name} repeats that of {REPEATED_MEMORY[name]}: skipped")
    elif memory:
        for field, value in memory.items():
            if parse_finite(value) is not None:
                run.add_result_from_samples(
                    name,
                    parameters,
                    Metric(field, "bytes"),
                    [round(value * MB)],
                    Clock.VALUE,
                    boundaries=boundaries,
                )
    _add_derived(run, name, target, parameters)


def _add_derived(run: RunBuilder, name: str, target: Mapping[str, Any], parameters: NamedValues) -> None:
    """Add throughput, a quotient of judged values and so only shown, and energy, which is measured."""
    throughput, energy = dict_or_empty(target.get("throughput")), dict_or_empty(target.get("energy"))
    known_metric = metric_identification.identify_metric("throughput", to_text(throughput.get("unit")))
    if known_metric and parse_finite(throughput.get("value")) is not None:
        run.add_result_from_samples(
            name, parameters, known_metric.metric, [throughput["value"]], Clock.INFORMATIONAL
        )
    joules = unit_conversion.find_unit_conversion(to_text(energy.get("unit")) or "kWh")
    for part in ("cpu", "gpu", "ram", "total"):
        value = parse_finite(energy.get(part))
        if value is not None and joules:
            clock = Clock.VALUE if part == "total" else Clock.INFORMATIONAL
            run.add_result_from_samples(
                name, parameters, Metric(f"energy_{part}", joules.unit), [joules.convert(value)], clock
            )


def _read_parameters(config: Mapping[str, Any]) -> NamedValues:
    """Return all scalar settings of backend and scenario, by their path."""
    chosen: dict[str, object] = {}
    for part in ("backend", "scenario"):
        settings = dict_or_empty(config.get(part))
        chosen[part] = settings.get("name")
        chosen |= _flatten({name: value for name, value in settings.items() if name not in IGNORED_SETTINGS})
    return to_text_pairs({name: value for name, value in chosen.items() if value not in (None, "", False)})


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            flat[prefix + name] = value
    return flat


def _parse_machine(environment: Mapping[str, Any], backend: Mapping[str, Any]) -> Machine | None:
    cpu, ram = to_text(environment.get("cpu")).strip(), parse_finite(environment.get("cpu_ram_mb"))
    if not cpu:
        return None
    accelerators = _accelerators(environment, backend)
    return Machine(
        cpu=cpu,
        cores=parse_count(environment.get("cpu_count")),
        memory_gb=parse_count(ram * MB / 2**30) if ram else None,
        accelerator=accelerators[0] if accelerators else "",
        accelerators=len(accelerators),
    )


def _accelerators(environment: Mapping[str, Any], backend: Mapping[str, Any]) -> list[str]:
    """Return the accelerators that the benchmark ran on: those of ``device_ids``, not all of the machine."""
    installed = [to_text(accelerator) for accelerator in list_or_empty(environment.get("gpu"))]
    if backend.get("device") == "cpu":
        return []
    device_ids = to_text(backend.get("device_ids")).split(",")
    indices = [int(device_id) for device_id in device_ids if device_id.strip().isdecimal()]
    return [installed[place] for place in indices if place < len(installed)] or installed


def _process_boundaries(config: Mapping[str, Any]) -> ProcessBoundaries:
    """Return whether values keep their process: a launcher of several processes pools their values."""
    launcher = dict_or_empty(config.get("launcher")).get("name")
    if launcher in ("process", "inline"):
        return ProcessBoundaries.PROCESS
    return ProcessBoundaries.POOLED if launcher else ProcessBoundaries.UNKNOWN
