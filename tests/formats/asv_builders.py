"""Build result folders as asv writes them, and compare runs with asv's own reader."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from asv.results import Results

from perfci.model import Result, Run, Status
from tests.support.builders import a_sha

COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"]
COLUMNS += ["stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile"]

STARTED = 1_700_000_000_123


def a_result_file(results: dict[str, Any], number: int = 1, **changes: Any) -> dict[str, Any]:
    """Build the content of a result file of version 2."""
    content: dict[str, Any] = {
        "commit_hash": a_sha(number),
        "env_name": "conda-py3.11-numpy",
        "date": 1_690_000_000_000 + number * 3_600_000,
        "params": {"machine": "runner", "python": "3.11", "numpy": ""},
        "python": "3.11",
        "requirements": {"numpy": ""},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": results,
        "durations": {},
        "version": 2,
    }
    return content | changes


def a_row(
    result: list[Any] | None,
    params: list[list[str]] | None = None,
    version: str | None = "v1",
    samples: Any = None,
    **stats: Any,
) -> list[Any]:
    """Build the row of one benchmark: values, the grid of parameters, samples and statistics."""
    values = {
        "result": result,
        "params": params or [],
        "version": version,
        "started_at": STARTED,
        "samples": samples,
    }
    row = [values.get(column, stats.get(column.removeprefix("stats_"))) for column in COLUMNS]
    while row and row[-1] is None:
        row.pop()
    return row


class AsvFolder:
    """A ``results`` folder to which files are added."""

    def __init__(self, path: Path, benchmarks: dict[str, Any] | None = None, **machine: Any) -> None:
        self.path = path
        self.write("benchmarks.json", {"version": 2, **(benchmarks or {})})
        self.write("runner/machine.json", {"machine": "runner", "version": 1, **machine})

    def write(self, name: str, content: Any) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    def result(self, results: dict[str, Any], number: int = 1, **changes: Any) -> Path:
        content = a_result_file(results, number, **changes)
        return self.write(f"runner/{content['commit_hash'][:8]}-{content['env_name']}.json", content)


def result_files(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("*/*.json") if path.name != "machine.json")


def as_asv_reads(file: Path) -> dict[tuple[str, tuple[str, ...]], dict[str, Any]]:
    """Read every cell of a file with asv's own reader."""
    loaded = Results.load(str(file))
    versions = loaded.benchmark_version
    return {
        (name, cell): {"value": value, "stats": stats or {}, "samples": samples, "version": versions[name]}
        for name in loaded.get_all_result_keys()
        for cell, value, stats, samples in _cells(loaded, name)
    }


def _cells(loaded: Results, name: str) -> Iterator[tuple[tuple[str, ...], Any, Any, Any]]:
    params = loaded.get_result_params(name)
    readers = (loaded.get_result_value, loaded.get_result_stats, loaded.get_result_samples)
    return zip(product(*params), *(read(name, params) for read in readers), strict=True)


def assert_equal_to_asv(run: Run, file: Path, leaving_out: Collection[str] = ()) -> int:
    """Compare every cell of a run with asv's reading of its file; return how many values were compared."""
    results = {
        (result.series.benchmark.name, tuple(value for _, value in result.series.parameters)): result
        for result in run.results
    }
    results = {cell: result for cell, result in results.items() if cell[0] not in leaving_out}
    asv_cells = {
        cell: expected for cell, expected in as_asv_reads(file).items() if cell[0] not in leaving_out
    }
    assert results.keys() == asv_cells.keys()
    for cell, expected in asv_cells.items():
        _assert_equal_cell(results[cell], expected)
    return sum(result.status is Status.OK for result in results.values())


def _assert_equal_cell(result: Result, expected: dict[str, Any]) -> None:
    value, stats = expected["value"], expected["stats"]
    assert result.series.benchmark.version == (expected["version"] or "")
    if value is None:
        assert (result.status, result.summary, result.processes) == (Status.FAILED, None, ())
    elif math.isnan(value):
        assert (result.status, result.summary, result.processes) == (Status.SKIPPED, None, ())
    else:
        assert result.status is Status.OK
        assert result.summary is not None
        read = (result.summary.value, result.summary.q25, result.summary.q75, result.summary.n, result.number)
        assert read == (value, *(stats.get(name) for name in ("q_25", "q_75", "repeat", "number")))
        ends = [stats.get(name) for name in ("ci_99_a", "ci_99_b")]
        assert [result.summary.ci_lo, result.summary.ci_hi] == [_finite_or_none(end) for end in ends]
        assert [list(process.samples) for process in result.processes] == [
            samples for samples in [expected["samples"]] if samples
        ]


def _finite_or_none(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
