"""The metrics of one process, kept together: judged ones first, a clock beside its twin, what is only shown last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, TypeVar

from perfci.model import CPU_TWIN, Series
from perfci.verdicts.process_levels import place_of

Row = TypeVar("Row")

MOST_ROWS_UNFOLDED = 60
"""A table with more rows than this is folded into one part for each benchmark."""


@dataclass(frozen=True, slots=True)
class Cell(Generic[Row]):
    """The rows of one benchmark with one set of parameters in one place; ``series`` is one of theirs."""

    series: Series
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Part(Generic[Row]):
    """The cells of one benchmark; without a title, all there are."""

    title: str
    cells: tuple[Cell[Row], ...]

    @property
    def rows(self) -> int:
        return sum(len(cell.rows) for cell in self.cells)


def by_cell(
    rows: Iterable[Row], series_of: Callable[[Row], Series], witness: Callable[[Row], bool] = lambda row: False
) -> list[Cell[Row]]:
    """Cells in the order of their first rows; within one the order given, except that witnesses go last."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(place_of(series_of(row)), []).append(row)
    return [Cell(series_of(given[0]), _in_order(given, series_of, witness)) for given in found.values()]


def parts(cells: Sequence[Cell[Row]]) -> tuple[Part[Row], ...]:
    """All cells as one part while they can be read at a glance, else one part for each benchmark."""
    everything = Part("", tuple(cells))
    if everything.rows <= MOST_ROWS_UNFOLDED:
        return (everything,) if cells else ()
    ordered = sorted(cells, key=_benchmark)
    return tuple(Part(name, tuple(found)) for name, found in groupby(ordered, _benchmark))


def _benchmark(cell: Cell[Row]) -> str:
    return cell.series.benchmark.name


def _in_order(
    rows: Sequence[Row], series_of: Callable[[Row], Series], witness: Callable[[Row], bool]
) -> tuple[Row, ...]:
    """A metric read with two clocks stands where the first of the two does, CPU time before wall time."""
    names = {series_of(row).metric.name for row in rows}

    def read(row: Row) -> str:
        name = series_of(row).metric.name
        own = name.removeprefix(CPU_TWIN)
        return own if own in names else name

    judged = {read(row) for row in rows if not witness(row)}
    first = {name: k for k, name in reversed(list(enumerate(map(read, rows))))}

    def place(row: Row) -> tuple[bool, int, bool]:
        name = read(row)
        return name not in judged, first[name], series_of(row).metric.name == name

    return tuple(sorted(rows, key=place))
