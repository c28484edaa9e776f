"""Read what optimum-benchmark writes: ``benchmark.json`` with its configuration, or ``benchmark_report.json`` alone.

Written after optimum_benchmark/trackers of version 0.6.0. Its megabytes are 10^6 bytes (``/ 1e6`` there).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from perfci.formats import Document, Given, Warn, unit_conversion
from perfci.formats.run_builder import Assembly
from perfci.formats.value_parsing import file_time, finite, listed, mapping, pairs, read_json, text, whole
from perfci.model import Boundaries, Clock, Machine, Metric, Pairs, PerfciError, Summary

CHANGED: Literal["refuse", "add"] = "refuse"

TOOL = "optimum-benchmark"

MEASURES = ("memory", "latency", "throughput", "energy", "efficiency")

COPIED = {"decode": "prefill", "generate": "prefill"}
"""Memory of text generation is read once: that of these targets repeats another's where they are equal."""

MB = 10**6

IGNORED = {"name", "_target_", "version", "seed", "device_ids", "processor"}


def recognises(path: Path, head: bytes) -> bool:
    return re.search(rb'"max_ram"|"stdev_"', head) is not None and b'"latency"' in head


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """One run: each target of the report is a benchmark of the model, each thing measured of it a metric."""
    content, body = read_json(path)
    content = mapping(content)
    config, report = mapping(content.get("config")), mapping(content.get("report", content))
    targets = {name: mapping(one) for name, one in report.items() if any(key in mapping(one) for key in MEASURES)}
    if not targets:
        raise PerfciError(f"{path} is no file of {TOOL}: no target of it has latency or memory.")
    if not config:
        warn("a report alone does not say what was measured: read benchmark.json, which has the configuration too")
    environment = mapping(config.get("environment"))
    run = Assembly(
        TOOL,
        str(path),
        given,
        warn,
        started_at=file_time(path),
        machine=_machine(environment, mapping(config.get("backend"))),
        environment=pairs(
            {name: value for name, value in environment.items() if name.endswith(("_version", "platform"))}
        ),
    )
    boundaries = _boundaries(config)
    for name, target in targets.items():
        _add(run, name, target, _parameters(config), boundaries, targets, warn)
    yield run.document(body)


def _add(
    run: Assembly,
    name: str,
    target: Mapping[str, Any],
    parameters: Pairs,
    boundaries: Boundaries,
    targets: Mapping[str, Mapping[str, Any]],
    warn: Warn,
) -> None:
    latency, memory = mapping(target.get("latency")), mapping(target.get("memory"))
    metric, mean = Metric("latency", "seconds"), finite(latency.get("mean"))
    if values := listed(latency.get("values")):
        run.samples(name, parameters, metric, values, Clock.WALL, boundaries=boundaries)
    elif mean is not None:
        run.summary(name, parameters, metric, Summary(mean))
    if memory and memory == mapping(targets.get(COPIED.get(name, ""), {})).get("memory"):
        warn(f"memory of {name} repeats that of {COPIED[name]}: left out")
    elif memory:
        for field, value in memory.items():
            if finite(value) is not None:
                run.samples(
                    name, parameters, Metric(field, "bytes"), [round(value * MB)], Clock.VALUE, boundaries=boundaries
                )
    _derived(run, name, target, parameters)


def _derived(run: Assembly, name: str, target: Mapping[str, Any], parameters: Pairs) -> None:
    """Throughput and efficiency are quotients of what is judged already; energy is measured."""
    throughput, energy = mapping(target.get("throughput")), mapping(target.get("energy"))
    known = unit_conversion.known("throughput", text(throughput.get("unit")))
    if known and finite(throughput.get("value")) is not None:
        run.samples(name, parameters, known.metric, [throughput["value"]], Clock.WITNESS)
    joules = unit_conversion.scale_of(text(energy.get("unit")) or "kWh")
    for part in ("cpu", "gpu", "ram", "total"):
        value = finite(energy.get(part))
        if value is not None and joules:
            clock = Clock.VALUE if part == "total" else Clock.WITNESS
            run.samples(name, parameters, Metric(f"energy_{part}", joules.unit), [joules.of(value)], clock)


def _parameters(config: Mapping[str, Any]) -> Pairs:
    """All single values of backend and scenario that somebody may choose, by their path."""
    chosen: dict[str, object] = {}
    for part in ("backend", "scenario"):
        settings = mapping(config.get(part))
        chosen[part] = settings.get("name")
        chosen |= _flat({name: value for name, value in settings.items() if name not in IGNORED})
    return pairs({name: value for name, value in chosen.items() if value not in (None, "", False)})


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            found[before + name] = value
    return found


def _machine(environment: Mapping[str, Any], backend: Mapping[str, Any]) -> Machine | None:
    cpu, ram = text(environment.get("cpu")).strip(), finite(environment.get("cpu_ram_mb"))
    if not cpu:
        return None
    accelerators = _accelerators(environment, backend)
    return Machine(
        cpu=cpu,
        cores=whole(environment.get("cpu_count")),
        memory_gb=whole(ram * MB / 2**30) if ram else None,
        accelerator=accelerators[0] if accelerators else "",
        accelerators=len(accelerators),
    )


def _accelerators(environment: Mapping[str, Any], backend: Mapping[str, Any]) -> list[str]:
    """The accelerators the benchmark ran on: those of ``device_ids``, not all that the box has."""
    all_of_them = [text(one) for one in listed(environment.get("gpu"))]
    if backend.get("device") == "cpu":
        return []
    wanted = [int(one) for one in text(backend.get("device_ids")).split(",") if one.strip().isdecimal()]
    return [all_of_them[place] for place in wanted if place < len(all_of_them)] or all_of_them


def _boundaries(config: Mapping[str, Any]) -> Boundaries:
    """A launcher of several processes pours their values together; without its name nobody knows."""
    launcher = mapping(config.get("launcher")).get("name")
    if launcher in ("process", "inline"):
        return Boundaries.PROCESS
    return Boundaries.POOLED if launcher else Boundaries.UNKNOWN
