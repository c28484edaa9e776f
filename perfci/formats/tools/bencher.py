"""Read Bencher Metric Format: ``{benchmark: {measure: {"value", "lower_value", "upper_value"}}}``.

Written after https://bencher.dev/docs/reference/bencher-metric-format. The bounds of a value are whatever
its harness made them, so that they are not read as an interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.metric_identification import explain_unresolved_unit, identify_metric
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import dict_or_empty, file_modified_at, parse_finite, read_json_and_bytes
from perfci.model import Clock, Direction, PerfciError, SampleSummary

TOOL = "bencher"

VALUE_FIELDS = {"value", "lower_value", "upper_value"}

BUILT_IN_MEASURES: dict[str, tuple[str, Direction]] = {
    "latency": ("ns", "lower"),
    "throughput": ("ops/s", "higher"),
    "instructions": ("instructions", "lower"),
    "build-time": ("s", "lower"),
    "file-size": ("bytes", "lower"),
}
"""Unit and direction of the measures that Bencher defines by their slugs."""


def can_read(path: Path, outline: ContentOutline) -> bool:
    innermost = {key[2] for key in outline.keys if len(key) == 3}
    is_shallow = all(len(key) < 4 for key in outline.keys)
    return not outline.is_list and is_shallow and "value" in innermost and innermost <= VALUE_FIELDS


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run; a measure that Bencher does not define follows from its name or is unresolved."""
    content, body = read_json_and_bytes(path)
    if not isinstance(content, dict):
        raise PerfciError(f"{path} is not in Bencher Metric Format: expected an object of benchmarks.")
    run = RunBuilder(TOOL, str(path), defaults, warn, started_at=file_modified_at(path))
    for benchmark, measures in content.items():
        for measure, fields in dict_or_empty(measures).items():
            value = parse_finite(dict_or_empty(fields).get("value"))
            if value is None:
                warn(f"{benchmark[:60]!a}: a measure without a number was skipped")
                continue
            unit, direction = BUILT_IN_MEASURES.get(measure.lower(), ("", None))
            known_metric = identify_metric(measure, unit, direction or defaults.direction)
            if known_metric is None:
                reason = explain_unresolved_unit(measure, "")
                run.add_unresolved_result(benchmark, (), measure, [value], Clock.VALUE, fields, reason)
            else:
                summary = SampleSummary(known_metric.conversion.convert(value))
                run.add_result_from_summary(benchmark, (), known_metric.metric, summary)
    yield run.build(body)
