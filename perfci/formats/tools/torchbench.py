"""Read results of TorchBench's user benchmarks, and of TritonBench (``--output-json``).

Written after ``userbenchmark/utils.py`` of pytorch/benchmark, ``{"name", "environ", "metrics": {...}}``, and
``tritonbench/utils/triton_op.py`` of pytorch-labs/tritonbench, which writes the metrics alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.metric_identification import explain_unresolved_unit, identify_metric
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    build_valid_commit,
    dict_or_empty,
    file_modified_at,
    parse_finite,
    read_json_and_bytes,
    to_text,
    to_text_pairs,
)
from perfci.model import Clock, Direction, Machine, NamedValues, PerfciError, SampleSummary

TOOL = "torchbench"

TRITONBENCH_KEY = re.compile(
    r"tritonbench_(?P<op>[^\[]+)\[x_(?P<x>.*)-(?P<provider>[^\]-]+)\]_(?P<metric>.+)"
)
"""``tritonbench_gemm_fwd[x_(256, 256)-aten_matmul]_latency``: operator and mode, input, implementation."""

TRITONBENCH_AVERAGE = re.compile(r"tritonbench_[^\[]+\[[^\]]+\]-.+-avg")
"""An average over all inputs, which changes with the number of inputs."""

LABELLED_KEY = re.compile(r"(?:[^=,]+=[^=]*, )+metric=(?P<metric>.+)")
"""``model=BERT_pytorch, test=eval, device=cuda, metric=latencies``, as the nightly benchmark writes it."""

UNITS: dict[str, tuple[str, Direction]] = {
    "latency": ("ms", "lower"),
    "latencies": ("ms", "lower"),
}
"""Units that neither tool writes: milliseconds, as triton's do_bench and TorchBench's timers give them."""


class MetricKey(NamedTuple):
    """What the key of a metric says."""

    benchmark: str
    parameters: NamedValues
    metric: str


def can_read(path: Path, outline: ContentOutline) -> bool:
    is_wrapped = outline.has_keys("name", "environ", "metrics") and not outline.is_list
    return is_wrapped or any(TRITONBENCH_KEY.fullmatch(key[0]) for key in outline.keys)


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run of values without processes; the commit of PyTorch is meant where no other is given."""
    content, body = read_json_and_bytes(path)
    content = dict_or_empty(content)
    environ = dict_or_empty(content.get("environ"))
    metrics = dict_or_empty(content.get("metrics")) if "metrics" in content else content
    if not metrics:
        raise PerfciError(f"{path} is not a file of {TOOL}: it has no metrics.")
    version, device = environ.get("pytorch_git_version"), to_text(environ.get("device"))
    machine = Machine(accelerator=device, accelerators=1) if device and not defaults.machine else None
    run = RunBuilder(
        TOOL,
        str(path),
        defaults,
        warn,
        started_at=file_modified_at(path),
        commit=None if defaults.commit else build_valid_commit(version),
        machine=machine,
        environment=to_text_pairs(environ),
    )
    for key, value in _flatten(metrics):
        if TRITONBENCH_AVERAGE.fullmatch(key):
            continue
        number = parse_finite(value)
        if number is None:
            warn(f"{key[:80]!a} is no number: skipped")
            continue
        _add_metric(run, parse_metric_key(key, to_text(content.get("name")) or TOOL), number)
    yield run.build(body)


def parse_metric_key(key: str, name: str) -> MetricKey:
    """Split a key into benchmark, parameters and metric; one of unknown form is a metric of ``name``."""
    if match := TRITONBENCH_KEY.fullmatch(key):
        parameters = to_text_pairs({"input": match["x"], "provider": match["provider"]})
        return MetricKey(f"tritonbench.{match['op']}", parameters, match["metric"])
    if match := LABELLED_KEY.fullmatch(key):
        labels = dict(
            part.split("=", 1) for part in key.removesuffix(f", metric={match['metric']}").split(", ")
        )
        return MetricKey(name, to_text_pairs(labels), match["metric"])
    return MetricKey(name, (), key)


def _flatten(metrics: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield keys and values; a metric of several numbers is one for each, ``latency-p50``."""
    for key, value in metrics.items():
        if isinstance(value, dict):
            yield from ((f"{key}-{name}", number) for name, number in value.items())
        else:
            yield key, value


def _add_metric(run: RunBuilder, key: MetricKey, number: float) -> None:
    unit, direction = UNITS.get(key.metric.partition("-")[0], ("", None))
    known_metric = identify_metric(key.metric, unit, direction)
    if known_metric is None:
        reason = explain_unresolved_unit(key.metric, "")
        run.add_unresolved_result(
            key.benchmark, key.parameters, key.metric, [number], Clock.VALUE, {key.metric: number}, reason
        )
        return
    summary = SampleSummary(known_metric.conversion.convert(number))
    run.add_result_from_summary(key.benchmark, key.parameters, known_metric.metric, summary)
