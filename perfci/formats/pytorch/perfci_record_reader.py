"""Read the records that perfci wrote for the PyTorch OSS benchmark database: its own runs, whole.

Such a record carries in ``extra_info`` what the format has no field for; see ``pytorch_writer``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from perfci.formats import run_document
from perfci.formats.format_types import ImportedRun
from perfci.formats.value_parsing import dict_or_empty, list_or_empty, parse_finite, to_text
from perfci.model import PerfciError


def is_perfci_record(record: Mapping[str, Any]) -> bool:
    """Whether perfci wrote the record."""
    return "perfci" in dict_or_empty(dict_or_empty(record.get("benchmark")).get("extra_info"))


def read_perfci_records(
    records: Sequence[Mapping[str, Any]], project: str, source_name: str
) -> Iterator[ImportedRun]:
    """Rebuild the runs from their records; processes keep the order of the records."""
    runs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        runs[to_text(record["benchmark"]["extra_info"]["perfci"])].append(record)
    for header, group in runs.items():
        try:
            runs_of_header = [
                run_document.run_from_dict(_parse_object(header) | {"results": results}, source_name)
                for results in _split_repeated_series(_read_results(group))
            ]
        except (KeyError, ValueError, TypeError) as error:
            raise PerfciError(f"{source_name} holds a record of perfci that is damaged: {error}.") from error
        for run in runs_of_header:
            run = replace(run, project=project)
            body = run_document.dump_run(run).encode()
            yield ImportedRun(run, run_document.idempotency_key(run), sha256(body).hexdigest())


def _split_repeated_series(results: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Split results into parts that hold each series once.

    A file of asv that has grown is stored in several runs with one header, which may repeat a series.
    """
    parts: list[dict[str, dict[str, Any]]] = []
    for result in results:
        names = ("benchmark", "benchmark_version", "parameters", "metric", "unit", "direction")
        series = json.dumps([result.get(name) for name in names], sort_keys=True)
        part = next((part for part in parts if series not in part), None)
        if part is None:
            parts.append(part := {})
        part[series] = result
    return [list(part.values()) for part in parts] or [[]]


def _read_results(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    for record in records:
        metric = dict_or_empty(record.get("metric"))
        extra = dict_or_empty(metric.get("extra_info"))
        content = results.setdefault(
            to_text(extra["result"]), _parse_object(extra["result"]) | {"processes": []}
        )
        if "process" in extra:
            values = (
                json.loads(extra["exact"])
                if "exact" in extra
                else list_or_empty(metric.get("benchmark_values"))
            )
            samples = [number for number in map(parse_finite, values) if number is not None]
            content["processes"].append(_parse_object(extra["process"]) | {"samples": samples})
    return list(results.values())


def _parse_object(raw: object) -> dict[str, Any]:
    content = json.loads(to_text(raw))
    if not isinstance(content, dict):
        raise ValueError("an object was expected")
    return content
