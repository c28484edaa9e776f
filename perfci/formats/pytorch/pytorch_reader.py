"""Read records of the PyTorch OSS benchmark database, version 3: one for each metric of each benchmark.

https://github.com/pytorch/pytorch/wiki/PyTorch-OSS-benchmark-infra
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from perfci.formats import Document, Given, Warn, unit_conversion
from perfci.formats.input_files import read_bytes
from perfci.formats.pytorch import perfci_records
from perfci.formats.run_builder import Assembly
from perfci.formats.value_parsing import (
    MAX_BYTES,
    commit_of,
    file_time,
    finite,
    listed,
    mapping,
    moment,
    pairs,
    parse_json_lines,
    text,
    whole,
)
from perfci.model import Boundaries, Clock, Machine, Pairs, PerfciError, Status

CHANGED: Literal["refuse", "add"] = "refuse"

TOOL = "pytorch"

FLOAT32_EXACT = 2**24
"""Above this the database, which keeps Float32, no longer has every whole number (IEEE 754: 24 bits)."""

ARGS = (
    *("tensor_parallel_size", "pipeline_parallel_size", "quantization", "dtype", "backend", "dataset_name"),
    *("input_len", "output_len", "batch_size", "num_prompts", "request_rate", "max_concurrency"),
    *("random_input_len", "random_output_len"),
)
"""What vLLM's ``args`` say of the load; the rest is file names, ports and defaults that change with its version."""

NOTES = ("description", "use_torch_compile_reason", "args")


def recognises(path: Path, head: bytes) -> bool:
    return b'"benchmark_values"' in head


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """A run for each commit on each runner in each job; an array, an object on each line, or a mix of both."""
    found = parse_json_lines(read_bytes(path, MAX_BYTES), str(path))
    records = [one for one in found if isinstance(one, dict) and "metric" in one]
    if not records:
        raise PerfciError(f"{path} holds no record with a metric, the one thing that PyTorch's format version 3 needs.")
    ours = [record for record in records if perfci_records.is_own(record)]
    yield from perfci_records.documents(ours, given.project, str(path))
    theirs: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        if not perfci_records.is_own(record):
            theirs[_place(record)].append(record)
    for group in theirs.values():
        if document := _run(group, path, given, warn):
            yield document


def _place(record: Mapping[str, Any]) -> tuple[str, ...]:
    job = [text(record.get(name)) for name in ("head_sha", "workflow_id", "run_attempt", "job_id")]
    return (*job, json.dumps(listed(record.get("runners"))[:1], sort_keys=True))


def _run(records: Sequence[Mapping[str, Any]], path: Path, given: Given, warn: Warn) -> Document | None:
    first = records[0]
    run = Assembly(
        TOOL,
        str(path),
        given,
        warn,
        started_at=moment(first.get("timestamp")) or file_time(path),
        commit=commit_of(first.get("head_sha"), branch=text(first.get("head_branch")).removeprefix("refs/heads/")),
        machine=_machine(mapping(next(iter(listed(first.get("runners"))), None))),
        environment=_environment(first),
    )
    for record in records:
        _add(run, record, warn)
    document = run.document(json.dumps(list(records), sort_keys=True).encode())
    return document if document.run.results or document.quarantined else None


def _add(run: Assembly, record: Mapping[str, Any], warn: Warn) -> None:
    metric, benchmark = mapping(record.get("metric")), mapping(record.get("benchmark"))
    name, values = text(metric.get("name")), listed(metric.get("benchmark_values"))
    if not name or not mapping(record.get("metric")):
        return warn("a record without a named metric is left out")
    extra = mapping(metric.get("extra_info"))
    known = unit_conversion.known(
        name, text(extra.get("unit")), unit_conversion.direction_named(extra.get("direction"))
    )
    title, parameters = text(benchmark.get("name")) or TOOL, _parameters(record)
    if known is None:
        reason = unit_conversion.unknown(name, text(extra.get("unit")))
        return run.quarantine(title, parameters, name, values, Clock.VALUE, record, reason)
    if not values:
        return run.ended(title, parameters, known.metric, Status.FAILED, "the record holds no values")
    flags = ("float32",) if any(map(_may_be_rounded, values)) else ()
    numbers = [value if finite(value) is None else known.scale.of(value) for value in values]
    return run.samples(
        title, parameters, known.metric, numbers, Clock.VALUE, boundaries=Boundaries.UNKNOWN, flags=flags
    )


def _may_be_rounded(value: object) -> bool:
    """A whole number so large that the database rounds it, and that looks as if it had."""
    number = finite(value)
    if number is None or abs(number) <= FLOAT32_EXACT:
        return False
    try:
        return bool(struct.unpack("f", struct.pack("f", number))[0] == number)
    except OverflowError:  # no Float32 is that large
        return False


def _parameters(record: Mapping[str, Any]) -> Pairs:
    """What makes two records two lines: the model, how it ran, and the single values a benchmark says of itself."""
    benchmark, model = mapping(record.get("benchmark")), mapping(record.get("model"))
    extra, args = mapping(benchmark.get("extra_info")), mapping(mapping(benchmark.get("extra_info")).get("args"))
    inputs = {f"input {name}": mapping(value).get("dtype") for name, value in mapping(record.get("inputs")).items()}
    single = {name: value for name, value in extra.items() if name not in NOTES and not isinstance(value, dict | list)}
    chosen: dict[str, object] = {
        "model": model.get("name"),
        "type": model.get("type"),
        "backend": model.get("backend"),
        "mode": benchmark.get("mode"),
        "dtype": benchmark.get("dtype"),
    }
    return pairs(chosen | inputs | single | {name: args.get(name) for name in ARGS if name in args})


def _machine(runner: Mapping[str, Any]) -> Machine | None:
    """A runner's hardware; its name is a host's, or a label that says nothing of it."""
    cpu, accelerator = text(runner.get("cpu_info")), text(runner.get("gpu_info"))
    if not (cpu or accelerator or text(runner.get("type"))):
        return None
    return Machine(
        cpu=cpu,
        cores=whole(runner.get("cpu_count")),
        memory_gb=whole(runner.get("avail_mem_in_gb")),
        accelerator=accelerator,
        accelerators=(whole(runner.get("gpu_count")) or 1) if accelerator else 0,
        name="" if cpu or accelerator else text(runner.get("type")),
    )


def _environment(record: Mapping[str, Any]) -> Pairs:
    dependencies = {
        f"dependency {name}": text(mapping(one).get("sha")) or text(mapping(one).get("version"))
        for name, one in mapping(record.get("dependencies")).items()
    }
    return pairs({"repo": record.get("repo"), "job": record.get("name")} | dependencies)
