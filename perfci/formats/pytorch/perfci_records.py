"""Write runs as records of the PyTorch OSS benchmark database, version 3, and read such records back whole.

That format has no unit, direction or process, and its database keeps Float32 and maps of strings. All other
fields therefore stand in ``extra_info``: those of the run in the benchmark's, those of a result and its
process in the metric's.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from perfci.formats import run_document
from perfci.formats.format_types import ImportedRun, WarnCallback, WarnOnce
from perfci.formats.value_parsing import as_list, as_mapping, parse_finite, to_text
from perfci.model import Machine, PerfciError, Result, Run

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


def is_perfci_record(record: Mapping[str, Any]) -> bool:
    """Whether perfci wrote the record."""
    return "perfci" in as_mapping(as_mapping(record.get("benchmark")).get("extra_info"))


def read_perfci_records(
    records: Sequence[Mapping[str, Any]], project: str, source_name: str
) -> Iterator[ImportedRun]:
    """Rebuild the runs from their records; processes keep the order of the records."""
    runs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        runs[to_text(record["benchmark"]["extra_info"]["perfci"])].append(record)
    for header, group in runs.items():
        try:
            run = run_document.run_from_dict(
                _parse_object(header) | {"results": _read_results(group)}, source_name
            )
        except (KeyError, ValueError, TypeError) as error:
            raise PerfciError(f"{source_name} holds a record of perfci that is damaged: {error}.") from error
        if run.project != project:
            run = replace(run, project=project)
        body = run_document.dump_run(run).encode()
        yield ImportedRun(run, run_document.idempotency_key(run), sha256(body).hexdigest())


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


def _read_results(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    for record in records:
        metric = as_mapping(record.get("metric"))
        extra = as_mapping(metric.get("extra_info"))
        content = results.setdefault(
            to_text(extra["result"]), _parse_object(extra["result"]) | {"processes": []}
        )
        if "process" in extra:
            values = (
                json.loads(extra["exact"]) if "exact" in extra else as_list(metric.get("benchmark_values"))
            )
            samples = [number for number in map(parse_finite, values) if number is not None]
            content["processes"].append(_parse_object(extra["process"]) | {"samples": samples})
    return list(results.values())


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


def _parse_object(raw: object) -> dict[str, Any]:
    content = json.loads(to_text(raw))
    if not isinstance(content, dict):
        raise ValueError("an object was expected")
    return content
