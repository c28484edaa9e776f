"""Read JSON of the Java Microbenchmark Harness (``-rf json``): every fork is a process.

Written after org.openjdk.jmh.results.format.JSONResultFormat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.metric_identification import explain_unresolved_unit, identify_metric
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    dict_or_empty,
    file_modified_at,
    list_or_empty,
    parse_finite,
    read_json_and_bytes,
    to_text,
    to_text_pairs,
)
from perfci.model import Clock, NamedValues, PerfciError, Process, SampleSummary, Status

TOOL = "jmh"

MODE_METRICS = {"thrpt": "throughput", "avgt": "time", "sample": "time", "ss": "time"}
"""The name of the primary metric by the mode; its unit says whether operations or times are meant."""


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.is_list and outline.has_keys("benchmark", "mode", "primaryMetric")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run; modes of one benchmark are metrics, or where they share a unit, parameters."""
    content, body = read_json_and_bytes(path)
    entries = [dict_or_empty(entry) for entry in list_or_empty(content)]
    if not entries:
        raise PerfciError(f"{path} is not a file of {TOOL}: expected a list of benchmarks.")
    first = entries[0]
    names = ("jmhVersion", "jdkVersion", "vmName", "vmVersion")
    run = RunBuilder(
        TOOL,
        str(path),
        defaults,
        warn,
        started_at=file_modified_at(path),
        environment=to_text_pairs({name: first.get(name) for name in names}),
        variant=to_text_pairs({"jdk": to_text(first.get("jdkVersion")).partition(".")[0]}),
    )
    for entry in entries:
        _add_benchmark(run, entry, warn)
    yield run.build(body)


def _add_benchmark(run: RunBuilder, entry: Mapping[str, Any], warn: WarnCallback) -> None:
    name, mode = to_text(entry.get("benchmark")), to_text(entry.get("mode"))
    if not name:
        return warn("a result without a benchmark was skipped")
    parameters = to_text_pairs(
        {
            **dict_or_empty(entry.get("params")),
            "threads": None if entry.get("threads") in (None, 1) else entry["threads"],
            "mode": mode if mode in ("sample", "ss") else None,
        }
    )
    _add_metric(
        run,
        name,
        parameters,
        MODE_METRICS.get(mode, mode or "score"),
        dict_or_empty(entry.get("primaryMetric")),
    )
    for metric, content in dict_or_empty(entry.get("secondaryMetrics")).items():
        _add_metric(run, name, parameters, metric, dict_or_empty(content))
    return None


def _add_metric(
    run: RunBuilder, benchmark: str, parameters: NamedValues, name: str, content: Mapping[str, Any]
) -> None:
    unit, score = to_text(content.get("scoreUnit")), parse_finite(content.get("score"))
    forks = [
        [value for value in map(parse_finite, list_or_empty(fork)) if value is not None]
        for fork in list_or_empty(content.get("rawData"))
    ]
    forks = [samples for samples in forks if samples]
    known_metric = identify_metric(name, unit)
    if known_metric is None:
        values: list[object] = [value for samples in forks for value in samples] or [score]
        reason = explain_unresolved_unit(name, unit)
        run.add_unresolved_result(
            benchmark, parameters, name, values, Clock.VALUE, content, reason, unit=unit
        )
        return
    metric, convert = known_metric.metric, known_metric.conversion.convert
    if forks:
        processes = (
            Process(index, samples=tuple(map(convert, samples)), clock=Clock.WALL)
            for index, samples in enumerate(forks)
        )
        run.add_result_from_processes(benchmark, parameters, metric, processes)
    elif score is not None:
        # The mode "sample" keeps a histogram instead of samples.
        run.add_result_from_summary(benchmark, parameters, metric, SampleSummary(convert(score)))
    else:
        run.add_result_without_value(
            benchmark, parameters, metric, Status.FAILED, "the benchmark has no score"
        )
