"""Read the generic JSON of github-action-benchmark's custom tools: ``[{"name", "unit", "value"}, ...]``.

Whether bigger or smaller is better is not in the file but in the tool's name (``customBiggerIsBetter``):
it comes from ``--direction``, or follows from the unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from perfci.formats import metric_identification
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    dict_or_empty,
    file_modified_at,
    parse_finite,
    read_json_and_bytes,
    to_text,
)
from perfci.model import Clock, PerfciError, SampleSummary

TOOL = "generic"


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.is_list and outline.has_keys("name", "unit", "value")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield one run, each entry a benchmark with one number; ``range`` and ``extra`` are dropped."""
    content, body = read_json_and_bytes(path)
    if not isinstance(content, list):
        raise PerfciError(f'{path} is not a generic file: expected a list of {{"name", "unit", "value"}}.')
    run = RunBuilder(TOOL, str(path), defaults, warn, started_at=file_modified_at(path))
    for entry in map(dict_or_empty, content):
        name, unit = to_text(entry.get("name")), to_text(entry.get("unit"))
        value = parse_finite(entry.get("value"))
        if not name or value is None:
            warn("an entry without a name or a number was skipped")
            continue
        known_metric = metric_identification.identify_metric("value", unit, defaults.direction)
        if known_metric is None:
            run.add_unresolved_result(
                name,
                (),
                "value",
                [value],
                Clock.VALUE,
                entry,
                metric_identification.explain_unresolved_unit(name, unit),
                unit=unit,
            )
        else:
            run.add_result_from_summary(
                name, (), known_metric.metric, SampleSummary(known_metric.conversion.convert(value))
            )
    yield run.build(body)
