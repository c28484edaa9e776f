"""Read what nvbench writes with ``--json`` or ``--jsonbin``: kernels, with the samples that lie beside the file.

Written after nvbench/json_printer.cu; summaries are a map by tag in older files and a list in newer ones.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from perfci.formats import Document, Given, Warn
from perfci.formats.input_files import MIB, read_bytes
from perfci.formats.run_builder import Assembly
from perfci.formats.value_parsing import file_time, finite, listed, mapping, pairs, read_json, text, whole
from perfci.model import Clock, Machine, Metric, Pairs, PerfciError, Status, Summary

CHANGED: Literal["refuse", "add"] = "refuse"

TOOL = "nvbench"

MEANS = {
    "nv/cold/time/gpu/mean": (Metric("time", "seconds"), "nv/json/bin:nv/cold/sample_times"),
    "nv/cold/time/cpu/mean": (Metric("cpu_wall", "seconds"), ""),
    "nv/batch/time/gpu/mean": (Metric("batch_time", "seconds"), ""),
    "nv/cpu_only/time/cpu/mean": (Metric("wall", "seconds"), ""),
}
"""What is judged, by its tag: a mean, and where its samples are told if they were written."""

RATES = {
    "nv/cold/bw/global/bytes_per_second": Metric("bytes_per_second", "bytes/s", "higher"),
    "nv/cold/bw/item_rate": Metric("items_per_second", "items/s", "higher"),
}
"""What follows from the time: shown beside it."""

BINARY_BYTES = 64 * MIB


def recognises(path: Path, head: bytes) -> bool:
    return b'"sm_version"' in head and b'"devices"' in head


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """A run for each device, whose states are the cells of its benchmarks."""
    content, body = read_json(path)
    devices, benchmarks = listed(mapping(content).get("devices")), mapping(content).get("benchmarks")
    if not devices or not isinstance(benchmarks, list):
        raise PerfciError(f"{path} is no file of {TOOL}: it has no devices with benchmarks.")
    for device in map(mapping, devices):
        run = Assembly(
            TOOL,
            str(path),
            given,
            warn,
            started_at=file_time(path),
            machine=Machine(accelerator=text(device.get("name")), accelerators=1),
            environment=pairs({name: device.get(name) for name in ("sm_version", "ptx_version", "ecc_state")}),
        )
        for benchmark in map(mapping, benchmarks):
            for state in map(mapping, listed(benchmark.get("states"))):
                if state.get("device") == device.get("id"):
                    _add(run, text(benchmark.get("name")) or TOOL, state, path, warn)
        document = run.document(body)
        if document.run.results:
            yield document


def _add(run: Assembly, name: str, state: Mapping[str, Any], path: Path, warn: Warn) -> None:
    parameters = _parameters(state)
    if state.get("is_skipped") is True:
        return run.ended(
            name, parameters, MEANS["nv/cold/time/gpu/mean"][0], Status.SKIPPED, text(state.get("skip_reason"))
        )
    summaries = _summaries(state)
    for tag, (metric, told) in MEANS.items():
        value = finite(summaries.get(tag, {}).get("value"))
        samples = _samples(summaries.get(told, {}), path, warn)
        if samples:
            run.samples(name, parameters, metric, samples, Clock.DEVICE)
        elif value is not None:
            run.summary(
                name, parameters, metric, Summary(value, n=whole(summaries.get("nv/cold/sample_size", {}).get("value")))
            )
    for tag, metric in RATES.items():
        if (value := finite(summaries.get(tag, {}).get("value"))) is not None:
            run.samples(name, parameters, metric, [value], Clock.WITNESS)
    return None


def _summaries(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Values by tag and name. Whole numbers are text in newer files: JSON has no 64 bits."""
    stored = state.get("summaries")
    tagged = [(text(mapping(one).get("tag")), mapping(one).get("data")) for one in listed(stored)]
    tagged += [(tag, mapping(one).get("values")) for tag, one in mapping(stored).items()]
    return {tag: {text(mapping(v).get("name")): _value(mapping(v)) for v in listed(values)} for tag, values in tagged}


def _value(stored: Mapping[str, Any]) -> object:
    value = stored.get("value")
    if not isinstance(value, str) or stored.get("type") == "string":
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _samples(told: Mapping[str, Any], path: Path, warn: Warn) -> list[float]:
    """Float32 samples of a file beside this one, or one folder below; a name that leads elsewhere is not followed."""
    size = finite(told.get("size"))
    if not told or size is None:
        return []
    beside = _beside(path.parent, PurePosixPath(text(told.get("filename"))))
    if beside is None:
        warn("samples are not beside the file: give nvbench's --jsonbin folder along, or only means are read")
        return []
    samples = array.array("f")
    body = read_bytes(beside, BINARY_BYTES)
    samples.frombytes(body[: len(body) // samples.itemsize * samples.itemsize])
    if sys.byteorder == "big":
        samples.byteswap()
    if len(samples) != size:
        warn(f"{beside.name} holds {len(samples)} samples, but {size:g} were expected; left out")
        return []
    return list(samples)


def _beside(folder: Path, name: PurePosixPath) -> Path | None:
    found = folder.joinpath(*name.parts[-2:])
    try:
        inside = found.resolve().is_relative_to(folder.resolve())
        return found if inside and found.is_file() else None
    except (OSError, ValueError):  # a name too long, or with a zero character
        return None


def _parameters(state: Mapping[str, Any]) -> Pairs:
    return pairs(
        {text(mapping(one).get("name")): mapping(one).get("value") for one in listed(state.get("axis_values"))}
    )
