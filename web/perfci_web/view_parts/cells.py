"""The metrics of one process, kept together: judged ones first, a clock beside its twin, what is only shown last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, TypeVar

from perfci.model import CPU_METRIC_PREFIX, Series
from perfci.verdicts.process_levels import key_without_metric

RowT = TypeVar("RowT")

MAX_UNFOLDED_ROWS = 60
"""A table with more rows than this is folded into one part for each benchmark."""


@dataclass(frozen=True, slots=True)
class CellRows(Generic[RowT]):
    """The rows of one benchmark with one set of parameters in one place; ``series`` is one of theirs."""

    series: Series
    rows: tuple[RowT, ...]


@dataclass(frozen=True, slots=True)
class BenchmarkSection(Generic[RowT]):
    """The cells of one benchmark; without a title, all there are."""

    title: str
    cells: tuple[CellRows[RowT], ...]

    @property
    def rows(self) -> int:
        return sum(len(cell.rows) for cell in self.cells)


def group_by_cell(
    rows: Iterable[RowT],
    series_of: Callable[[RowT], Series],
    is_informational: Callable[[RowT], bool] = lambda row: False,
) -> list[CellRows[RowT]]:
    """Cells in the order of their first rows; within one the order given, except that witnesses go last."""
    found: dict[tuple[object, ...], list[RowT]] = {}
    for row in rows:
        found.setdefault(key_without_metric(series_of(row)), []).append(row)
    return [
        CellRows(series_of(given[0]), _sort_rows(given, series_of, is_informational))
        for given in found.values()
    ]


def fold_by_benchmark(cells: Sequence[CellRows[RowT]]) -> tuple[BenchmarkSection[RowT], ...]:
    """All cells as one part while they can be read at a glance, else one part for each benchmark."""
    everything = BenchmarkSection("", tuple(cells))
    if everything.rows <= MAX_UNFOLDED_ROWS:
        return (everything,) if cells else ()
    ordered = sorted(cells, key=_benchmark_name)
    return tuple(BenchmarkSection(name, tuple(found)) for name, found in groupby(ordered, _benchmark_name))


def _benchmark_name(cell: CellRows[RowT]) -> str:
    return cell.series.benchmark.name


def _sort_rows(
    rows: Sequence[RowT], series_of: Callable[[RowT], Series], is_informational: Callable[[RowT], bool]
) -> tuple[RowT, ...]:
    """A metric read with two clocks stands where the first of the two does, CPU time before wall time."""
    names = {series_of(row).metric.name for row in rows}

    def clockless_metric(row: RowT) -> str:
        name = series_of(row).metric.name
        own = name.removeprefix(CPU_METRIC_PREFIX)
        return own if own in names else name

    judged = {clockless_metric(row) for row in rows if not is_informational(row)}
    first = {name: k for k, name in reversed(list(enumerate(map(clockless_metric, rows))))}

    def sort_key(row: RowT) -> tuple[bool, int, bool]:
        name = clockless_metric(row)
        return name not in judged, first[name], series_of(row).metric.name == name

    return tuple(sorted(rows, key=sort_key))
