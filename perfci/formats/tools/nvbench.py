"""Read JSON of nvbench (``--json`` or ``--jsonbin``): kernels, with their samples in files next to it.

Written after nvbench/json_printer.cu; summaries are a map by tag in older files and a list in newer ones.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from perfci.formats.bounded_files import MIB, read_decompressed
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
from perfci.model import Clock, Machine, Metric, PerfciError, SampleSummary, Status

TOOL = "nvbench"

TIME_METRICS = {
    "nv/cold/time/gpu/mean": (Metric("time", "seconds"), "nv/json/bin:nv/cold/sample_times"),
    "nv/cold/time/cpu/mean": (Metric("cpu_wall", "seconds"), ""),
    "nv/batch/time/gpu/mean": (Metric("batch_time", "seconds"), ""),
    "nv/cpu_only/time/cpu/mean": (Metric("wall", "seconds"), ""),
}
"""Judged metrics by the tag of their mean, with the tag that names the file of their samples, if any."""

RATE_METRICS = {
    "nv/cold/bw/global/bytes_per_second": Metric("bytes_per_second", "bytes/s", "higher"),
    "nv/cold/bw/item_rate": Metric("items_per_second", "items/s", "higher"),
}
"""Rates derived from the time: shown, not judged."""

MAX_BINARY_BYTES = 64 * MIB


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.has_keys("devices/[]/sm_version")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield a run for each device; the states of a benchmark are its cells."""
    content, body = read_json_and_bytes(path)
    devices, benchmarks = (
        list_or_empty(dict_or_empty(content).get("devices")),
        dict_or_empty(content).get("benchmarks"),
    )
    if not devices or not isinstance(benchmarks, list):
        raise PerfciError(f"{path} is not a file of {TOOL}: it has no devices with benchmarks.")
    for device in map(dict_or_empty, devices):
        run = RunBuilder(
            TOOL,
            str(path),
            defaults,
            warn,
            started_at=file_modified_at(path),
            machine=Machine(accelerator=to_text(device.get("name")), accelerators=1),
            environment=to_text_pairs(
                {name: device.get(name) for name in ("sm_version", "ptx_version", "ecc_state")}
            ),
        )
        for benchmark in map(dict_or_empty, benchmarks):
            for state in map(dict_or_empty, list_or_empty(benchmark.get("states"))):
                if state.get("device") == device.get("id"):
                    _add_state(run, to_text(benchmark.get("name")) or TOOL, state, path, warn)
        document = run.build(body)
        if document.run.results:
            yield document


def _add_state(run: RunBuilder, name: str, state: Mapping[str, Any], path: Path, warn: WarnCallback) -> None:
    axes = map(dict_or_empty, list_or_empty(state.get("axis_values")))
    parameters = to_text_pairs({to_text(axis.get("name")): axis.get("value") for axis in axes})
    if state.get("is_skipped") is True:
        return run.add_result_without_value(
            name,
            parameters,
            TIME_METRICS["nv/cold/time/gpu/mean"][0],
            Status.SKIPPED,
            to_text(state.get("skip_reason")),
        )
    summaries = _summaries_by_tag(state)
    for tag, (metric, samples_tag) in TIME_METRICS.items():
        value = parse_finite(summaries.get(tag, {}).get("value"))
        samples = _read_samples(summaries.get(samples_tag, {}), path, warn)
        if samples:
            run.add_result_from_samples(name, parameters, metric, samples, Clock.DEVICE)
        elif value is not None:
            run.add_result_from_summary(
                name,
                parameters,
                metric,
                SampleSummary(value, n=parse_count(summaries.get("nv/cold/sample_size", {}).get("value"))),
            )
    for tag, metric in RATE_METRICS.items():
        if (value := parse_finite(summaries.get(tag, {}).get("value"))) is not None:
            run.add_result_from_samples(name, parameters, metric, [value], Clock.INFORMATIONAL)
    return None


def _summaries_by_tag(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Map tag and name to a value. Newer files write whole numbers as text: JSON has no 64-bit integers."""
    stored = state.get("summaries")
    tagged = [
        (to_text(dict_or_empty(summary).get("tag")), dict_or_empty(summary).get("data"))
        for summary in list_or_empty(stored)
    ]
    tagged += [(tag, dict_or_empty(summary).get("values")) for tag, summary in dict_or_empty(stored).items()]
    return {
        tag: {
            to_text(dict_or_empty(value).get("name")): _parse_value(dict_or_empty(value))
            for value in list_or_empty(values)
        }
        for tag, values in tagged
    }


def _parse_value(stored: Mapping[str, Any]) -> object:
    value = stored.get("value")
    if not isinstance(value, str) or stored.get("type") == "string":
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _read_samples(summary: Mapping[str, Any], path: Path, warn: WarnCallback) -> list[float]:
    """Read Float32 samples of a file next to this one or one folder below; other paths are not followed."""
    size = parse_finite(summary.get("size"))
    if not summary or size is None:
        return []
    samples_file = _find_beside(path.parent, PurePosixPath(to_text(summary.get("filename"))))
    if samples_file is None:
        warn(
            "samples file not found next to the JSON: "
            "include nvbench's --jsonbin folder, otherwise only means are read"
        )
        return []
    samples = array.array("f")
    body = read_decompressed(samples_file, MAX_BINARY_BYTES)
    samples.frombytes(body[: len(body) // samples.itemsize * samples.itemsize])
    if sys.byteorder == "big":  # nvbench writes the bytes of its own, little-endian machine
        samples.byteswap()
    if len(samples) != size:
        warn(f"{samples_file.name} holds {len(samples)} samples, but {size:g} were expected; skipped")
        return []
    return list(samples)


def _find_beside(folder: Path, name: PurePosixPath) -> Path | None:
    candidate = folder.joinpath(*name.parts[-2:])
    try:
        inside = candidate.resolve().is_relative_to(folder.resolve())
        return candidate if inside and candidate.is_file() else None
    except (OSError, ValueError):  # a name too long, or with a zero character
        return None
