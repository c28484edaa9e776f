"""Read what optimum-benchmark writes: ``benchmark.json`` with its configuration, or ``benchmark_report.json`` alone.

Written after optimum_benchmark/trackers of version 0.6.0. Its megabytes are 10^6 bytes (``/ 1e6`` there).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from perfci.formats import unit_conversion
from perfci.formats.protocol import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    as_list,
    as_mapping,
    file_modified_at,
    parse_count,
    parse_finite,
    read_json,
    to_pairs,
    to_text,
)
from perfci.model import Clock, Machine, Metric, NamedValues, PerfciError, ProcessBoundaries, SampleSummary

ON_CHANGED_BODY: Literal["refuse", "add"] = "refuse"

TOOL = "optimum-benchmark"

MEASURED_QUANTITIES = ("memory", "latency", "throughput", "energy", "efficiency")

REPEATED_MEMORY = {"decode": "prefill", "generate": "prefill"}
"""Memory of text generation is read once: that of these targets repeats another's where they are equal."""

MB = 10**6

IGNORED_SETTINGS = {"name", "_target_", "version", "seed", "device_ids", "processor"}


def can_read(path: Path, head: bytes) -> bool:
    return re.search(rb'"max_ram"|"stdev_"', head) is not None and b'"latency"' in head


def read_documents(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """One run: each target of the report is a benchmark of the model, each thing measured of it a metric."""
    content, body = read_json(path)
    content = as_mapping(content)
    config, report = as_mapping(content.get("config")), as_mapping(content.get("report", content))
    targets = {
        name: as_mapping(one)
        for name, one in report.items()
        if any(key in as_mapping(one) for key in MEASURED_QUANTITIES)
    }
    if not targets:
        raise PerfciError(f"{path} is not a file of {TOOL}: no target of it has latency or memory.")
    if not config:
        warn(
            "a report alone does not say what was measured: read benchmark.json, which has the configuration too"
        )
    environment = as_mapping(config.get("environment"))
    run = RunBuilder(
        TOOL,
        str(path),
        defaults,
        warn,
        started_at=file_modified_at(path),
        machine=_parse_machine(environment, as_mapping(config.get("backend"))),
        environment=to_pairs(
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
    latency, memory = as_mapping(target.get("latency")), as_mapping(target.get("memory"))
    metric, mean = Metric("latency", "seconds"), parse_finite(latency.get("mean"))
    if values := as_list(latency.get("values")):
        run.add_samples(name, parameters, metric, values, Clock.WALL, boundaries=boundaries)
    elif mean is not None:
        run.add_summary(name, parameters, metric, SampleSummary(mean))
    if memory and memory == as_mapping(targets.get(REPEATED_MEMORY.get(name, ""), {})).get("memory"):
        warn(f"memory of {name} repeats that of {REPEATED_MEMORY[name]}: skipped")
    elif memory:
        for field, value in memory.items():
            if parse_finite(value) is not None:
                run.add_samples(
                    name,
                    parameters,
                    Metric(field, "bytes"),
                    [round(value * MB)],
                    Clock.VALUE,
                    boundaries=boundaries,
                )
    _add_derived(run, name, target, parameters)


def _add_derived(run: RunBuilder, name: str, target: Mapping[str, Any], parameters: NamedValues) -> None:
    """Throughput and efficiency are quotients of what is judged already; energy is measured."""
    throughput, energy = as_mapping(target.get("throughput")), as_mapping(target.get("energy"))
    known = unit_conversion.identify_metric("throughput", to_text(throughput.get("unit")))
    if known and parse_finite(throughput.get("value")) is not None:
        run.add_samples(name, parameters, known.metric, [throughput["value"]], Clock.INFORMATIONAL)
    joules = unit_conversion.find_conversion(to_text(energy.get("unit")) or "kWh")
    for part in ("cpu", "gpu", "ram", "total"):
        value = parse_finite(energy.get(part))
        if value is not None and joules:
            clock = Clock.VALUE if part == "total" else Clock.INFORMATIONAL
            run.add_samples(
                name, parameters, Metric(f"energy_{part}", joules.unit), [joules.convert(value)], clock
            )


def _read_parameters(config: Mapping[str, Any]) -> NamedValues:
    """All single values of backend and scenario that somebody may choose, by their path."""
    chosen: dict[str, object] = {}
    for part in ("backend", "scenario"):
        settings = as_mapping(config.get(part))
        chosen[part] = settings.get("name")
        chosen |= _flatten({name: value for name, value in settings.items() if name not in IGNORED_SETTINGS})
    return to_pairs({name: value for name, value in chosen.items() if value not in (None, "", False)})


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= _flatten(value, f"{prefix}{name}.")
        elif not isinstance(value, list):
            found[prefix + name] = value
    return found


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
    """The accelerators the benchmark ran on: those of ``device_ids``, not all that the box has."""
    all_of_them = [to_text(one) for one in as_list(environment.get("gpu"))]
    if backend.get("device") == "cpu":
        return []
    wanted = [int(one) for one in to_text(backend.get("device_ids")).split(",") if one.strip().isdecimal()]
    return [all_of_them[place] for place in wanted if place < len(all_of_them)] or all_of_them


def _process_boundaries(config: Mapping[str, Any]) -> ProcessBoundaries:
    """A launcher of several processes pours their values together; without its name nobody knows."""
    launcher = as_mapping(config.get("launcher")).get("name")
    if launcher in ("process", "inline"):
        return ProcessBoundaries.PROCESS
    return ProcessBoundaries.POOLED if launcher else ProcessBoundaries.UNKNOWN
