"""Read records of the PyTorch OSS benchmark database, version 3: one for each metric of each benchmark.

https://github.com/pytorch/pytorch/wiki/PyTorch-OSS-benchmark-infra
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfci.formats import metric_identification
from perfci.formats.bounded_files import read_decompressed
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.pytorch import perfci_record_reader, pytorch_writer
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    MAX_BYTES,
    build_valid_commit,
    dict_or_empty,
    file_modified_at,
    list_or_empty,
    parse_count,
    parse_finite,
    parse_json_or_lines,
    parse_time,
    to_text,
    to_text_pairs,
)
from perfci.model import Clock, Machine, NamedValues, PerfciError, ProcessBoundaries, Status

TOOL = "pytorch"

FLOAT32_EXACT = 2**24
"""Up to here Float32, the database's type, holds every whole number (IEEE 754: 24 bits)."""

VLLM_ARGS = (
    *("tensor_parallel_size", "pipeline_parallel_size", "quantization", "dtype", "backend", "dataset_name"),
    *("input_len", "output_len", "batch_size", "num_prompts", "request_rate", "max_concurrency"),
    *("random_input_len", "random_output_len"),
)
"""The load in vLLM's ``args``; the rest is file names, ports and defaults that change with its version."""

IGNORED_FIELDS = ("description", "use_torch_compile_reason", "args")


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.has_keys("metric/benchmark_values")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield a run for each commit, runner and job; the file is an array, an object on each line, or both."""
    values = parse_json_or_lines(read_decompressed(path, MAX_BYTES), str(path))
    records = [value for value in values if isinstance(value, dict) and "metric" in value]
    if not records:
        raise PerfciError(
            f"{path} holds no record with a metric, the one thing that PyTorch's format version 3 needs."
        )
    perfci_written = [record for record in records if perfci_record_reader.is_perfci_record(record)]
    yield from perfci_record_reader.read_perfci_records(perfci_written, defaults.project, str(path))
    jobs: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        if not perfci_record_reader.is_perfci_record(record):
            job = [to_text(record.get(name)) for name in ("head_sha", "workflow_id", "run_attempt", "job_id")]
            runner = json.dumps(list_or_empty(record.get("runners"))[:1], sort_keys=True)
            jobs[*job, runner].append(record)
    for group in jobs.values():
        if document := _build_run(group, path, defaults, warn):
            yield document


def _build_run(
    records: Sequence[Mapping[str, Any]], path: Path, defaults: ImportDefaults, warn: WarnCallback
) -> ImportedRun | None:
    first = records[0]
    run = RunBuilder(
        TOOL,
        str(path),
        defaults,
        warn,
        started_at=parse_time(first.get("timestamp")) or file_modified_at(path),
        commit=build_valid_commit(
            first.get("head_sha"), branch=to_text(first.get("head_branch")).removeprefix("refs/heads/")
        ),
        machine=_parse_machine(dict_or_empty(next(iter(list_or_empty(first.get("runners"))), None))),
        environment=_read_environment(first),
    )
    for record in records:
        _add_record(run, record, warn)
    document = run.build(json.dumps(list(records), sort_keys=True).encode())
    return document if document.run.results or document.unresolved else None


def _add_record(run: RunBuilder, record: Mapping[str, Any], warn: WarnCallback) -> None:
    metric, benchmark = dict_or_empty(record.get("metric")), dict_or_empty(record.get("benchmark"))
    name, values = to_text(metric.get("name")), list_or_empty(metric.get("benchmark_values"))
    if not name or not dict_or_empty(record.get("metric")):
        return warn("a record without a named metric was skipped")
    extra = dict_or_empty(metric.get("extra_info"))
    known_metric = metric_identification.identify_metric(
        name, to_text(extra.get("unit")), metric_identification.parse_direction(extra.get("direction"))
    )
    title, parameters = to_text(benchmark.get("name")) or TOOL, _read_parameters(record)
    if known_metric is None:
        unit = to_text(extra.get("unit"))
        reason = metric_identification.explain_unresolved_unit(name, unit)
        return run.add_unresolved_result(
            title, parameters, name, values, Clock.VALUE, record, reason, unit=unit
        )
    if not values:
        return run.add_result_without_value(
            title, parameters, known_metric.metric, Status.FAILED, "the record holds no values"
        )
    flags = ("float32",) if any(map(_is_possibly_rounded, values)) else ()
    numbers = [
        value if parse_finite(value) is None else known_metric.conversion.convert(value) for value in values
    ]
    return run.add_result_from_samples(
        title,
        parameters,
        known_metric.metric,
        numbers,
        Clock.VALUE,
        boundaries=ProcessBoundaries.UNKNOWN,
        flags=flags,
    )


def _is_possibly_rounded(value: object) -> bool:
    """Whether a number above ``FLOAT32_EXACT`` is a Float32, so that the database may have rounded it."""
    number = parse_finite(value)
    return number is not None and abs(number) > FLOAT32_EXACT and pytorch_writer.is_exact_in_float32(number)


def _read_parameters(record: Mapping[str, Any]) -> NamedValues:
    """Return what separates two series: the model, its mode, inputs and the benchmark's scalar fields."""
    benchmark, model = dict_or_empty(record.get("benchmark")), dict_or_empty(record.get("model"))
    extra = dict_or_empty(benchmark.get("extra_info"))
    args = dict_or_empty(extra.get("args"))
    inputs = {
        f"input {name}": dict_or_empty(value).get("dtype")
        for name, value in dict_or_empty(record.get("inputs")).items()
    }
    single = {
        name: value
        for name, value in extra.items()
        if name not in IGNORED_FIELDS and not isinstance(value, dict | list)
    }
    chosen: dict[str, object] = {
        "model": model.get("name"),
        "type": model.get("type"),
        "backend": model.get("backend"),
        "mode": benchmark.get("mode"),
        "dtype": benchmark.get("dtype"),
    }
    return to_text_pairs(
        chosen | inputs | single | {name: args.get(name) for name in VLLM_ARGS if name in args}
    )


def _parse_machine(runner: Mapping[str, Any]) -> Machine | None:
    """Build the machine from a runner's hardware; its name is left out, since it is a host or a label."""
    cpu, accelerator = to_text(runner.get("cpu_info")), to_text(runner.get("gpu_info"))
    if not (cpu or accelerator or to_text(runner.get("type"))):
        return None
    return Machine(
        cpu=cpu,
        cores=parse_count(runner.get("cpu_count")),
        memory_gb=parse_count(runner.get("avail_mem_in_gb")),
        accelerator=accelerator,
        accelerators=(parse_count(runner.get("gpu_count")) or 1) if accelerator else 0,
        name="" if cpu or accelerator else to_text(runner.get("type")),
    )


def _read_environment(record: Mapping[str, Any]) -> NamedValues:
    dependencies = {
        f"dependency {name}": to_text(dict_or_empty(dependency).get("sha"))
        or to_text(dict_or_empty(dependency).get("version"))
        for name, dependency in dict_or_empty(record.get("dependencies")).items()
    }
    return to_text_pairs({"repo": record.get("repo"), "job": record.get("name")} | dependencies)
