"""The view model of a matrix: a cell for each value of two axes, and the means of rows and columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfci.history.noise_between_runs import join_noise_of_sides
from perfci.model import Interval, Metric, Series, Status
from perfci.number_format import (
    choose_display_scale,
    format_count,
    format_signed_percent,
    format_significant_digits,
)
from perfci.report.comparisons.comparison_rows import NOT_MEASURED, ComparisonRow, SideLevel
from perfci.report.comparisons.group_summaries import NORMAL_95, GroupSummary, summarize_rows
from perfci.report.comparisons.row_table import RowTable
from perfci.report.serializers import serialize_series
from perfci.report.verdict_text import format_interval, verdict_label
from perfci_web.matrix.axes import Axis, AxisValue, axis_value, find_axis
from perfci_web.matrix.load_matrix import LoadedMatrix

ROW_PREFIX, COLUMN_PREFIX = "row:", "col:"
"""How an address names a row or a column as reference: ``row:4096``, ``col:bf16``."""

MAX_VALUES = 60
"""Rows or columns that a page shows."""

LARGE_FACTOR = 1.25
"""A cell that moved by more than this factor either way is tinted darker."""


@dataclass(frozen=True, slots=True)
class MatrixQuery:
    """What an address asks for; ``filters`` are the values of the axes that are neither rows nor columns."""

    rows: str = ""
    cols: str = ""
    at: str = ""
    vs: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The row or column that all others are compared with, with its prefix; may be empty."""
        return self.vs if self.vs.startswith((ROW_PREFIX, COLUMN_PREFIX)) else ""

    @property
    def base(self) -> str:
        """The commit that every cell is compared with; may be empty."""
        return "" if self.reference else self.vs


@dataclass(frozen=True, slots=True)
class Layout:
    """Which axes are rows and columns, and what is chosen on the others."""

    axes: tuple[Axis, ...]
    rows: Axis
    cols: Axis | None
    chosen: Mapping[str, str]

    @property
    def query(self) -> dict[str, str]:
        """The layout as query of an address."""
        return {"rows": self.rows.key, "cols": self.cols.key if self.cols else "", **self.chosen}

    @property
    def other_axes(self) -> list[Axis]:
        return [axis for axis in self.axes if axis.key in self.chosen]


def choose_layout(axes: Sequence[Axis], query: MatrixQuery, measured: Iterable[Series]) -> Layout:
    """Choose rows and columns as the address says, else the first two axes that measured series differ in.

    Of every other axis the value is chosen that most of the measured series have.
    """
    measured = list(measured)
    preferred = sorted(axes, key=lambda axis: len({axis_value(each, axis.key) for each in measured}) < 2)
    columns = find_axis(axes, query.cols)
    rows = find_axis(axes, query.rows) or next((axis for axis in preferred if axis != columns), preferred[0])
    rest = [axis for axis in preferred if axis != rows]
    cols = find_axis(rest, query.cols) or next(iter(rest), None)
    chosen = {axis.key: _choose_value(axis, query.filters, measured) for axis in rest if axis != cols}
    return Layout(tuple(axes), rows, cols, chosen)


def _choose_value(axis: Axis, filters: Mapping[str, str], measured: Iterable[Series]) -> str:
    named = axis.value_named(filters[axis.key]) if axis.key in filters else None
    if named is not None:
        return named
    counts = Counter(axis_value(series, axis.key) for series in measured)
    return max((each.value for each in axis.values), key=lambda value: counts[value])


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One cell: a level, or one compared with its reference; without a series there is nothing to run.

    ``row`` is None where the matrix compares nothing.
    """

    series: Series | None
    level: SideLevel
    text: str
    row: ComparisonRow | None = None
    is_reference: bool = False

    @property
    def kind(self) -> str:
        """``value``, ``failed``, or ``unrun`` where nothing was tried or could be."""
        if self.level.level is not None:
            return "value"
        return "unrun" if self.level.status in (None, Status.SKIPPED) else "failed"

    @property
    def problem(self) -> str:
        """Why there is no level: ``not run``, ``out of memory``."""
        return "not run" if self.level.status is None else self.level.text

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the ratio: as measured, else from the noise between runs."""
        if self.row is None or self.row.ratio is None:
            return None
        if self.row.interval is not None or self.row.verdict is not None:
            return self.row.interval
        noise = self.row.noise_of_difference
        if noise is None or self.row.ratio <= 0:
            return None
        factor = math.exp(NORMAL_95 * noise)
        return Interval(self.row.ratio / factor, self.row.ratio * factor)

    @property
    def tint(self) -> str:
        """The class of its colour: worse or better, and ``far`` beyond a quarter; empty where neither."""
        if self.row is None or self.row.ratio is None or self.row.tone not in ("worse", "better"):
            return ""
        return f"{self.row.tone}{' far' if abs(self.row.log_ratio) > math.log(LARGE_FACTOR) else ''}"

    @property
    def word(self) -> str:
        """What the difference means, in words."""
        if self.row is None:
            return ""
        return verdict_label(self.row.verdict) if self.row.verdict else self.row.word


@dataclass(frozen=True, slots=True)
class Margin:
    """The geometric mean of a row or a column, over its cells that have a value."""

    text: str
    scope: str


@dataclass(frozen=True, slots=True)
class MatrixView:
    """One page of a matrix."""

    benchmark: str
    metric: Metric
    query: MatrixQuery
    layout: Layout
    loaded: LoadedMatrix
    unit: str
    cells: tuple[tuple[MatrixCell, ...], ...]
    row_margins: tuple[Margin, ...]
    column_margins: tuple[Margin, ...]
    overall: Margin

    @property
    def rows(self) -> Sequence[AxisValue]:
        return self.layout.rows.values[:MAX_VALUES]

    @property
    def columns(self) -> Sequence[AxisValue]:
        return self.layout.cols.values[:MAX_VALUES] if self.layout.cols else ()

    def is_reference(self, prefix: str, value: AxisValue) -> bool:
        """Whether all others are compared with this row or column."""
        return self.query.reference in (prefix + value.value, prefix + value.label)

    @property
    def every_cell(self) -> list[MatrixCell]:
        return [cell for row in self.cells for cell in row]

    @property
    def headline(self) -> str:
        cells = self.every_cell
        measured, failed = (sum(cell.kind == kind for cell in cells) for kind in ("value", "failed"))
        text = f"{measured} of {format_count(len(cells), 'cell')} measured"
        return f"{text}, {failed} failed." if failed else f"{text}."

    @property
    def counts(self) -> str:
        """How many cells moved, in words; empty where nothing is compared."""
        words = Counter(cell.word for cell in self.every_cell if cell.row is not None and cell.row.ratio)
        return ", ".join(f"{count} {word}" for word, count in words.most_common())

    @property
    def worst(self) -> list[tuple[str, MatrixCell]]:
        """The cells that got worse by most, with their names; at most five."""
        named = [
            (f"{row.label}{f' · {column.label}' if column else ''}", cell)
            for row, cells in zip(self.rows, self.cells, strict=True)
            for column, cell in zip(self.columns or (None,), cells, strict=True)
            if cell.row is not None and cell.row.tone == "worse"
        ]
        return sorted(named, key=lambda each: -abs(each[1].row.log_ratio if each[1].row else 0.0))[:5]


def build_matrix_view(
    series: Iterable[Series], axes: Sequence[Axis], query: MatrixQuery, loaded: LoadedMatrix
) -> MatrixView:
    """Build the page; of series that share a cell, the one with a value and the newest version counts."""
    series = list(series)
    layout = choose_layout(axes, query, loaded.at.levels)
    grid = _place_series(series, layout, loaded)
    rows = [each.value for each in layout.rows.values[:MAX_VALUES]]
    cols = [each.value for each in layout.cols.values[:MAX_VALUES]] if layout.cols else [""]
    levels = [loaded.at.level(each).level for each in grid.values()]
    metric = series[-1].metric
    scale = choose_display_scale((level for level in levels if level is not None), metric.unit, metric.name)
    build = _CellBuilder(query, layout, loaded, grid, scale.factor)
    cells = tuple(tuple(build(row, col) for col in cols) for row in rows)
    columns = tuple(zip(*cells, strict=True))
    margins = [
        tuple(_build_margin(line, scale.factor, query) for line in lines)
        for lines in (cells, columns, [[cell for row in cells for cell in row]])
    ]
    return MatrixView(
        series[-1].benchmark.name,
        metric,
        query,
        layout,
        loaded,
        scale.symbol,
        cells,
        margins[0],
        margins[1],
        margins[2][0],
    )


def _place_series(
    series: Iterable[Series], layout: Layout, loaded: LoadedMatrix
) -> dict[tuple[str, str], Series]:
    """The series of each pair of values, on what is chosen of the other axes."""

    def value_last(each: Series) -> tuple[bool, bool]:
        return loaded.at.level(each).level is not None, each in loaded.at.levels

    return {
        (axis_value(each, layout.rows.key), axis_value(each, layout.cols.key) if layout.cols else ""): each
        for each in sorted(series, key=value_last)
        if all(axis_value(each, key) == value for key, value in layout.chosen.items())
    }


@dataclass(frozen=True, slots=True)
class _CellBuilder:
    query: MatrixQuery
    layout: Layout
    loaded: LoadedMatrix
    grid: Mapping[tuple[str, str], Series]
    factor: float

    def __call__(self, row: str, col: str) -> MatrixCell:
        series = self.grid.get((row, col))
        level = self.loaded.at.level(series)
        text = "" if level.level is None else format_significant_digits(level.level / self.factor)
        if series is None or not self.query.vs:
            return MatrixCell(series, level, text)
        base_series = self._reference_of(row, col) if self.query.reference else series
        base = self.loaded.at if self.query.reference else self.loaded.base
        base_level = base.level(base_series) if base is not None else NOT_MEASURED
        compared = ComparisonRow(
            series,
            base_series or series,
            base_level,
            level,
            None if self.query.reference else self.loaded.verdicts.get(series),
            None if self.query.reference else self.loaded.changes.get(series),
            self._noise_of(base_series, series),
        )
        is_reference = bool(self.query.reference) and base_series == series
        return MatrixCell(series, level, text, None if is_reference else compared, is_reference)

    def _reference_of(self, row: str, col: str) -> Series | None:
        """The series in the row, or column, that all others are compared with."""
        prefix, _, named = self.query.reference.partition(":")
        axis = self.layout.rows if f"{prefix}:" == ROW_PREFIX else self.layout.cols
        value = axis.value_named(named) if axis else None
        if value is None:
            return None
        return self.grid.get((value, col) if axis is self.layout.rows else (row, value))

    def _noise_of(self, base: Series | None, head: Series) -> float | None:
        noise = self.loaded.noise
        return join_noise_of_sides(noise.get(base) if base else None, noise.get(head))


def format_gain(ratio: float, cost_sign: float) -> str:
    """Format how many times as good as its reference something is: ``1.83×``."""
    return f"{format_significant_digits(ratio**-cost_sign, 3)}×"


def format_cell_ratio(cell: MatrixCell, as_gain: bool) -> str:
    """Format the ratio of a cell: ``+3.2 %`` against a commit, ``1.83×`` against a row or column."""
    if cell.row is None or cell.row.ratio is None or cell.series is None:
        return ""
    if as_gain and cell.row.ratio > 0:
        return format_gain(cell.row.ratio, cell.series.metric.cost_sign)
    return format_signed_percent(cell.row.ratio - 1)


def format_cell_interval(cell: MatrixCell, as_gain: bool) -> str:
    """Format the interval of a cell in what its ratio is in; empty without one."""
    if cell.interval is None or cell.series is None:
        return ""
    if not as_gain:
        return format_interval(cell.interval)
    ends = sorted(end**-cell.series.metric.cost_sign for end in (cell.interval.lo, cell.interval.hi))
    return f"[{', '.join(format_significant_digits(end, 3) for end in ends)}]"


def _build_margin(cells: Sequence[MatrixCell], factor: float, query: MatrixQuery) -> Margin:
    if query.vs:
        compared = [cell.row for cell in cells if cell.row is not None]
        total = sum(not cell.is_reference for cell in cells)
        return _build_compared_margin(
            summarize_rows(RowTable.from_rows(compared)), total, bool(query.reference)
        )
    levels = [cell.level.level for cell in cells if cell.level.level is not None]
    if not levels or min(levels) <= 0:
        return Margin("", "")
    mean = math.exp(math.fsum(map(math.log, levels)) / len(levels))
    scope = "" if len(levels) == len(cells) else f"of {len(levels)} of {len(cells)}"
    return Margin(format_significant_digits(mean / factor), scope)


def _build_compared_margin(summary: GroupSummary, total: int, as_gain: bool) -> Margin:
    if summary.mean_ratio is None:
        return Margin("", "")
    scope = "" if summary.common == total else f"of {summary.common} of {total}"
    if as_gain:
        return Margin(f"{format_significant_digits(1 / summary.mean_ratio, 3)}×", scope)
    return Margin(f"{format_signed_percent(summary.mean_ratio - 1)}", scope)


def serialize_matrix(project: str, view: MatrixView) -> dict[str, Any]:
    """Return the JSON: the axes, and every cell."""
    layout, base = view.layout, view.loaded.base
    return {
        "project": project,
        "benchmark": view.benchmark,
        "metric": view.metric.name,
        "unit": view.metric.unit,
        "direction": view.metric.direction,
        "at": view.loaded.at.side.commit.sha,
        "vs": base.side.commit.sha if base else view.query.reference,
        "rows": layout.rows.key,
        "columns": layout.cols.key if layout.cols else "",
        "chosen": dict(layout.chosen),
        "cells": [
            {**fields, "series": serialize_series(cell.series) if cell.series else None}
            for fields, cell in zip(list_cell_fields(view), view.every_cell, strict=True)
        ],
    }


CSV_COLUMNS = (
    "row", "column", "level", "unit", "status", "reason", "ratio", "interval_lo", "interval_hi", "outcome",
)  # fmt: skip


def list_cell_fields(view: MatrixView) -> list[dict[str, Any]]:
    """Return the cells as flat rows, in full precision."""
    places = [
        (row.value, column.value if column else "") for row in view.rows for column in view.columns or (None,)
    ]
    return [
        {
            "row": row,
            "column": column,
            "level": cell.level.level,
            "unit": view.metric.unit,
            "status": cell.level.status.value if cell.level.status else "",
            "reason": cell.level.reason,
            "ratio": cell.row.ratio if cell.row else None,
            "interval_lo": cell.interval.lo if cell.interval else None,
            "interval_hi": cell.interval.hi if cell.interval else None,
            "outcome": cell.word,
        }
        for (row, column), cell in zip(places, view.every_cell, strict=True)
    ]
