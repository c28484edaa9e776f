"""Write runs as records of the PyTorch OSS benchmark database, version 3.

That format has no unit, direction or process, and its database keeps Float32 and maps of strings. All other
fields therefore stand in ``extra_info``: those of the run in the benchmark's, those of a result and its
process in the metric's, from where ``perfci_record_reader`` reads them back whole.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from perfci.formats import run_document
from perfci.formats.format_types import WarnCallback, WarnOnce
from perfci.model import Machine, Result, Run

ROUNDED_NOTE = (
    "PyTorch's database keeps Float32: numbers that it rounds stand in metric.extra_info.exact as well, "
    "which its dashboards do not read"
)

NO_VALUES_NOTE = (
    "a result without a number has no values: its status and reason stand in metric.extra_info only"
)


def serialize_runs(runs: Iterable[Run], warn: WarnCallback) -> Iterator[bytes]:
    """Yield a JSON array with one record for each process of each result, or for its summary."""
    warn_once = WarnOnce(warn)
    separator = "[\n"
    for run in runs:
        for record in _build_records(run, warn_once):
            yield f"{separator}{_dump_json(record)}".encode()
            separator = ",\n"
    yield b"[]\n" if separator == "[\n" else b"\n]\n"


def _build_records(run: Run, warn: WarnCallback) -> Iterator[dict[str, Any]]:
    header = run_document.run_to_dict(replace(run, results=()))
    origin = dict(run.origin)
    shared = {
        "timestamp": int(run.started_at.timestamp()),
        "schema_version": "v3",
        "name": origin.get("job", "") or run.suite,
        "repo": run.project,
        "head_branch": run.commit.branch,
        "head_sha": run.commit.sha,
        "workflow_id": _parse_number(origin.get("run_id", "")),
        "run_attempt": _parse_number(origin.get("attempt", "")),
        "job_id": _parse_number(origin.get("job", "")),
        "runners": [_build_runner(run.machine)],
    }
    for result in run.results:
        benchmark = {
            "name": result.series.benchmark.name,
            "mode": "",
            "dtype": dict(result.series.parameters).get("dtype", ""),
            "extra_info": {"perfci": _dump_json(header)},
        }
        for metric in _build_metrics(result, warn):
            yield {**shared, "benchmark": benchmark, "model": {"name": result.series.cell}, "metric": metric}


def _build_metrics(result: Result, warn: WarnCallback) -> Iterator[dict[str, Any]]:
    content = run_document.result_to_dict(result)
    processes = content.pop("processes", [])
    metric, series = {"name": result.series.metric.name}, result.series
    result_fields = {
        "unit": series.metric.unit,
        "direction": series.metric.direction,
        "harness_version": series.harness,
        "result": _dump_json(content),
    }
    for process in processes:
        samples = process.pop("samples", [])
        process_fields = {
            "process_index": str(process["index"]),
            "clock_stats": process.get("clock", ""),
            "process": _dump_json(process),
        }
        yield {
            **metric,
            "benchmark_values": samples,
            "extra_info": result_fields | process_fields | _exact_values(samples, warn),
        }
    if not processes:
        values = [result.summary.value] if result.summary else []
        if not values:
            warn(NO_VALUES_NOTE)
        yield {
            **metric,
            "benchmark_values": values,
            "extra_info": result_fields | _exact_values(values, warn),
        }


def _exact_values(values: Sequence[float], warn: WarnCallback) -> dict[str, str]:
    if all(map(is_exact_in_float32, values)):
        return {}
    warn(ROUNDED_NOTE)
    return {"exact": _dump_json(values)}


def is_exact_in_float32(value: float) -> bool:
    """Whether a number keeps its value in the Float32 of that database."""
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:  # no Float32 is that large
        return False


def _build_runner(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.label,
        "type": machine.name,
        "cpu_info": machine.cpu,
        "cpu_count": machine.cores or 0,
        "avail_mem_in_gb": machine.memory_gb or 0,
        "gpu_info": machine.accelerator,
        "gpu_count": machine.accelerators,
    }


def _parse_number(text: str) -> int:
    # Up to 18 digits fit into the 64 bits of that database.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def _dump_json(content: object) -> str:
    """Serialize compactly; the maps of that database hold strings, so nested values are stored as JSON."""
    return json.dumps(content, separators=(",", ":"))
