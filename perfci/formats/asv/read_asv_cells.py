"""Translate the cells of an asv result file into results of perfci."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from perfci.formats.asv.asv_result_file import AsvBenchmarkRow
from perfci.formats.format_types import WarnCallback
from perfci.formats.value_parsing import dict_or_empty, parse_finite, to_text
from perfci.model import (
    Clock,
    Metric,
    NamedValues,
    Process,
    ProcessBoundaries,
    Result,
    SampleSummary,
    Series,
    Status,
)

MAX_CELLS = 100_000
"""Cells of one benchmark; a larger grid is damaged."""

MAX_COUNT = 2**63 - 1

METRIC_NAMES = {"time": "time", "peakmemory": "peak_memory", "memory": "memory", "track": "value"}

TYPE_GUESSES = (("peakmem", "peakmemory", "bytes"), ("mem", "memory", "bytes"), ("time", "time", "seconds"))
"""Name prefix, type and unit, for benchmarks that benchmarks.json does not describe any more."""

FAILED = "asv recorded a failure; its files keep no reason"
SKIPPED = "asv recorded that the benchmark skipped this"


@dataclass(frozen=True, slots=True)
class BenchmarkDescription:
    """Metric, clock and parameters of a benchmark.

    ``original_name`` is the benchmark's name in perfci, where perfci had to write another one for asv.
    """

    metric: Metric
    clock: Clock
    parameter_names: tuple[str, ...]
    original_name: str = ""


def parse_benchmark_description(name: str, entry: object) -> BenchmarkDescription:
    """Read an entry of benchmarks.json, which is missing for benchmarks that asv no longer discovers."""
    fields: Mapping[str, Any] = entry if isinstance(entry, dict) else {}
    function = name.rpartition(".")[2].lower()
    guesses = ((kind, unit) for start, kind, unit in TYPE_GUESSES if function.startswith(start))
    guessed_type, guessed_unit = next(guesses, ("track", "unit"))
    kind, unit, names = fields.get("type"), fields.get("unit"), fields.get("param_names")
    kind = kind if isinstance(kind, str) and kind else guessed_type
    # asv has no direction: suites set one of two attributes of the benchmark's function.
    higher = fields.get("direction") == "higher" or fields.get("higher_is_better") is True
    perfci_fields = dict_or_empty(fields.get("perfci"))
    return BenchmarkDescription(
        original_name=to_text(perfci_fields.get("benchmark")),
        metric=Metric(
            name=to_text(perfci_fields.get("metric")) or METRIC_NAMES.get(kind, kind),
            unit=unit if isinstance(unit, str) and unit else guessed_unit,
            direction="higher" if higher else "lower",
        ),
        clock=Clock.WALL if kind == "time" else Clock.VALUE,
        parameter_names=tuple(map(str, names)) if isinstance(names, list) else (),
    )


def index_grid_cells(
    name: str, row: AsvBenchmarkRow, description: BenchmarkDescription, warn: WarnCallback
) -> dict[NamedValues, int]:
    """Map the parameters of each cell to its index in the row's lists; the last parameter varies fastest.

    The parameters are the strings of the result file: benchmarks.json may have another grid by now.
    """
    size = math.prod(len(axis) for axis in row.params)
    if size > MAX_CELLS or (row.result is not None and len(row.result) != size):
        result_count = "none" if row.result is None else len(row.result)
        warn(f"{name}: its parameters span {size} cells, but it has {result_count} results; skipped")
        return {}
    names = description.parameter_names
    if len(names) != len(row.params):
        names = tuple(f"param{place}" for place in range(1, len(row.params) + 1))
    cells = {tuple(zip(names, values, strict=True)): cell for cell, values in enumerate(product(*row.params))}
    if len(cells) < size:
        warn(
            f"{name}: some of its parameters are equal as text; of equal cells the last is kept, as asv does"
        )
    return cells


def convert_cell(
    series: Series, row: AsvBenchmarkRow, cell: int, clock: Clock, warn: WarnCallback
) -> Result | None:
    """Translate one cell; None for a value that is not a number, as ``track_`` benchmarks may return."""
    value = row.result[cell] if row.result is not None else None
    number = parse_finite(value)
    if number is not None:
        return _build_measured_result(series, row, cell, number, clock, warn)
    if value is None:
        return Result(series, Status.FAILED, boundaries=ProcessBoundaries.POOLED, reason=FAILED)
    if not isinstance(value, float):
        type_name = type(value).__name__
        warn(f"{series.benchmark.name}: a value of type {type_name} is not a number that perfci can compare")
        return None
    if math.isnan(value):
        return Result(series, Status.SKIPPED, boundaries=ProcessBoundaries.POOLED, reason=SKIPPED)
    return Result(
        series, Status.FAILED, boundaries=ProcessBoundaries.POOLED, reason="the benchmark returned infinity"
    )


def _build_measured_result(
    series: Series, row: AsvBenchmarkRow, cell: int, value: float, clock: Clock, warn: WarnCallback
) -> Result:
    summary = SampleSummary(
        value=value,
        ci_lo=parse_finite(row.cell_value("stats_ci_99_a", cell)),
        ci_hi=parse_finite(row.cell_value("stats_ci_99_b", cell)),
        q25=parse_finite(row.cell_value("stats_q_25", cell)),
        q75=parse_finite(row.cell_value("stats_q_75", cell)),
        n=_parse_count(row.cell_value("stats_repeat", cell)),
    )
    samples = _parse_samples(series, row.cell_value("samples", cell), warn)
    return Result(
        series,
        Status.OK,
        processes=(Process(0, samples=samples, clock=clock, started_at=row.started_at),) if samples else (),
        summary=summary,
        boundaries=ProcessBoundaries.POOLED,
        number=_parse_count(row.cell_value("stats_number", cell)),
    )


def _parse_samples(series: Series, stored: object, warn: WarnCallback) -> tuple[float, ...]:
    if not isinstance(stored, list):
        return ()
    if set(map(type, stored)) == {float} and all(map(math.isfinite, stored)):
        return tuple(stored)
    numbers = tuple(number for number in map(parse_finite, stored) if number is not None)
    if len(numbers) < len(stored):
        warn(f"{series.benchmark.name}: non-finite samples were skipped")
    return numbers


def _parse_count(stored: object) -> int | None:
    if isinstance(stored, bool) or not isinstance(stored, int):
        return None
    return stored if 0 < stored <= MAX_COUNT else None
