"""Write runs as records of the PyTorch OSS benchmark database, version 3, and read such records back whole.

That format has no unit, no direction and no process, and its database keeps Float32 and maps of strings. So all it
cannot say stands in ``extra_info``: of the run in that of the benchmark, of a result and its process in the metric's.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from perfci.formats import Document, Warn, run_document
from perfci.formats.value_parsing import finite, listed, mapping, text
from perfci.model import Machine, PerfciError, Result, Run

ROUNDED = (
    "PyTorch's database keeps Float32: numbers that it rounds stand in metric.extra_info.exact as well, "
    "which its dashboards do not read"
)

NO_VALUES = "a result without a number has no values: its status and reason stand in metric.extra_info only"


def write(runs: Iterable[Run], lost: Warn) -> Iterator[bytes]:
    """A JSON array with one record for each process of each result, or for its summary."""
    told: set[str] = set()

    def once(sentence: str) -> None:
        if sentence not in told:
            told.add(sentence)
            lost(sentence)

    before = "[\n"
    for run in runs:
        for record in _records(run, once):
            yield f"{before}{json.dumps(record, separators=(',', ':'))}".encode()
            before = ",\n"
    yield b"[]\n" if before == "[\n" else b"\n]\n"


def is_own(record: Mapping[str, Any]) -> bool:
    return "perfci" in mapping(mapping(record.get("benchmark")).get("extra_info"))


def documents(records: Sequence[Mapping[str, Any]], project: str, what: str) -> Iterator[Document]:
    """The runs that such records were written from, processes in the order they stand in."""
    runs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        runs[text(record["benchmark"]["extra_info"]["perfci"])].append(record)
    for header, group in runs.items():
        try:
            run = run_document.read_content(_object(header) | {"results": _results(group)}, what)
        except (KeyError, ValueError, TypeError) as error:
            raise PerfciError(f"{what} holds a record of perfci that is damaged: {error}.") from error
        if run.project != project:
            run = replace(run, project=project)
        body = run_document.write(run).encode()
        yield Document(run, run_document.idempotency_key(run), sha256(body).hexdigest())


def _records(run: Run, lost: Warn) -> Iterator[dict[str, Any]]:
    header = run_document.content_of(replace(run, results=()))
    origin = dict(run.origin)
    shared = {
        "timestamp": int(run.started_at.timestamp()),
        "schema_version": "v3",
        "name": origin.get("job", "") or run.suite,
        "repo": run.project,
        "head_branch": run.commit.branch,
        "head_sha": run.commit.sha,
        "workflow_id": _number(origin.get("run_id", "")),
        "run_attempt": _number(origin.get("attempt", "")),
        "job_id": _number(origin.get("job", "")),
        "runners": [_runner(run.machine)],
    }
    for result in run.results:
        benchmark = {
            "name": result.series.benchmark.name,
            "mode": "",
            "dtype": dict(result.series.parameters).get("dtype", ""),
            "extra_info": {"perfci": _text(header)},
        }
        for metric in _metrics(result, lost):
            yield {**shared, "benchmark": benchmark, "model": {"name": result.series.cell}, "metric": metric}


def _metrics(result: Result, lost: Warn) -> Iterator[dict[str, Any]]:
    content = run_document.result_content(result)
    processes = content.pop("processes", [])
    metric, series = {"name": result.series.metric.name}, result.series
    said = {
        "unit": series.metric.unit,
        "direction": series.metric.direction,
        "harness_version": series.harness,
        "result": _text(content),
    }
    for process in processes:
        samples = process.pop("samples", [])
        beside = {
            "process_index": str(process["index"]),
            "clock_stats": process.get("clock", ""),
            "process": _text(process),
        }
        yield {**metric, "benchmark_values": samples, "extra_info": said | beside | _exact(samples, lost)}
    if not processes:
        values = [result.summary.value] if result.summary else []
        if not values:
            lost(NO_VALUES)
        yield {**metric, "benchmark_values": values, "extra_info": said | _exact(values, lost)}


def _exact(values: Sequence[float], lost: Warn) -> dict[str, str]:
    if all(map(_fits, values)):
        return {}
    lost(ROUNDED)
    return {"exact": _text(values)}


def _fits(value: float) -> bool:
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


def _results(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        metric = mapping(record.get("metric"))
        extra = mapping(metric.get("extra_info"))
        content = found.setdefault(text(extra["result"]), _object(extra["result"]) | {"processes": []})
        if "process" in extra:
            values = json.loads(extra["exact"]) if "exact" in extra else listed(metric.get("benchmark_values"))
            samples = [number for number in map(finite, values) if number is not None]
            content["processes"].append(_object(extra["process"]) | {"samples": samples})
    return list(found.values())


def _runner(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.label,
        "type": machine.name,
        "cpu_info": machine.cpu,
        "cpu_count": machine.cores or 0,
        "avail_mem_in_gb": machine.memory_gb or 0,
        "gpu_info": machine.accelerator,
        "gpu_count": machine.accelerators,
    }


def _number(told: str) -> int:
    return int(told) if told.isascii() and told.isdecimal() and len(told) < 19 else 0


def _text(content: object) -> str:
    """The maps of that database hold strings, so what is structured goes in as JSON."""
    return json.dumps(content, separators=(",", ":"))


def _object(told: object) -> dict[str, Any]:
    content = json.loads(text(told))
    if not isinstance(content, dict):
        raise ValueError("an object was expected")
    return content
