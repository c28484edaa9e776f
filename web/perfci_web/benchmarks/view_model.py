"""The view model of the list of benchmarks: level, trend and last change of each series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import ChangePoint, Series, Stage, Verdict
from perfci.report.serializers import serialize_series
from perfci.report.series_trend import (
    ChangeMark,
    Trend,
)
from perfci.report.verdict_text import CHANGE_KINDS
from perfci.store.queries.query_records import SeriesRecord, StoredSeries, series_matches_search
from perfci_web.load_series_trends import SeriesTrend
from perfci_web.view_parts.list_search_and_paging import paginate_cells
from perfci_web.view_parts.table_row_groups import (
    CellRows,
    MissingReason,
    group_rows_by_benchmark_cell,
    group_series_by_reason,
)

BY_CHANGE, BY_COMMITS, BY_STATE = "change", "commits", "state"
SORTS = {"name": "name", BY_CHANGE: "largest change", BY_COMMITS: "commits", BY_STATE: "failures first"}
UNAVAILABLE = "unavailable"
"""The value of ``show`` that lists series that were never measured, with reasons; other pages leave them
out.
"""


@dataclass(frozen=True, slots=True)
class SeriesListRow:
    """One series of the list, with the end of its trend and its last change that was not refuted."""

    record: SeriesRecord
    trend: Trend
    current_level: float | None
    last_change: ChangeMark | None
    judged: bool


@dataclass(frozen=True, slots=True)
class SeriesSelection:
    """The series of one page, selected before their histories are read.

    ``total`` counts the series of the search, ``measured`` all that were ever measured, ``unavailable``
    those of the search that never were. ``matches`` are all series of the search.
    """

    query: str
    sort: str
    show: str
    page: int
    pages: int
    total: int
    benchmarks: int
    measured: int
    unavailable: int
    cells: tuple[CellRows[StoredSeries], ...]
    matches: tuple[StoredSeries, ...]

    @property
    def series(self) -> list[StoredSeries]:
        return [stored for cell in self.cells for stored in cell.rows]


def select_series_page(
    all_series: Sequence[StoredSeries],
    ranks: Mapping[Series, float],
    *,
    query: str = "",
    sort: str = "name",
    page: int = 1,
    show: str = "",
) -> SeriesSelection:
    """Search, sort and cut out one page; invalid options fall back to the nearest valid value.

    ``ranks`` are the values to sort by, largest first; a series without one counts as zero, ties are sorted
    by name.
    """
    sort, show = sort if sort in SORTS else "name", show if show == UNAVAILABLE else ""
    matches = [stored for stored in all_series if not query or series_matches_search(stored.series, query)]
    shown = [stored for stored in matches if stored.never_measured == bool(show)]
    pages = paginate_cells(_sort_cells(shown, ranks))
    page = min(max(1, page), len(pages))
    return SeriesSelection(
        query=query,
        sort=sort,
        show=show,
        page=page,
        pages=len(pages),
        total=len(shown),
        benchmarks=len({stored.series.benchmark.name for stored in shown}),
        measured=sum(not stored.never_measured for stored in all_series),
        unavailable=sum(stored.never_measured for stored in matches),
        cells=tuple(pages[page - 1]),
        matches=tuple(shown),
    )


def largest_change_by_series(
    changes: Iterable[ChangePoint], verdicts: Iterable[Verdict]
) -> dict[Series, float]:
    """Return the largest change of each series as ``abs(log(ratio))``, without reading a history."""
    sizes: dict[Series, float] = {}
    ratios = [(change.series, 1 + change.relative_change) for change in changes]
    ratios += [
        (verdict.series, verdict.ratio)
        for verdict in verdicts
        if verdict.kind in CHANGE_KINDS and verdict.stage is Stage.CONFIRMATION and verdict.ratio
    ]
    for series, ratio in ratios:
        sizes[series] = max(sizes.get(series, 0.0), abs(math.log(ratio)) if ratio > 0 else math.inf)
    return sizes


def build_series_list_row(
    record: SeriesRecord, trend: SeriesTrend | None, end: Trend | None = None
) -> SeriesListRow:
    """Build the row of a series from its trend and the end of it, if it is drawn; a series without a history
    has none."""
    end = end or Trend(record.series, (), (), ())
    if trend is None:
        return SeriesListRow(record, end, None, None, judged=False)
    judged = trend.record.judged and not record.is_informational
    return SeriesListRow(record, end, trend.current_level, trend.last_change, judged)


def serialize_series_list_row(series_row: SeriesListRow) -> dict[str, Any]:
    """Return one row of the JSON and the CSV."""
    change, record = series_row.last_change, series_row.record
    return {
        **serialize_series(record.series),
        "judged": series_row.judged,
        "commits": record.points,
        "last_commit": record.last_commit_sha or "",
        "last_status": record.last_status.value if record.last_status else "",
        "last_reason": record.last_reason,
        "level": series_row.current_level,
        "last_change_commit": change.commit if change else "",
        "last_change_ratio": change.ratio if change else None,
        "last_change_state": change.state if change else "",
    }


def group_unmeasured_series_by_reason(
    records: Iterable[SeriesRecord], query: str
) -> tuple[MissingReason, ...]:
    """Group the series of a search that were never measured by reason."""
    matches = [
        record for record in records if record.never_measured and series_matches_search(record.series, query)
    ]
    ordered = sorted(matches, key=lambda record: (record.series.cell, record.id))
    return group_series_by_reason((record.last_reason, record.series) for record in ordered)


def _sort_cells(
    series: Iterable[StoredSeries], ranks: Mapping[Series, float]
) -> list[CellRows[StoredSeries]]:
    """Sort cells by the rank of their first rows."""

    def sort_rank(stored: StoredSeries) -> float:
        return -ranks.get(stored.series, 0.0)

    ordered = sorted(series, key=lambda stored: (stored.series.cell, stored.id))
    cells = group_rows_by_benchmark_cell(
        ordered, lambda stored: stored.series, lambda stored: stored.is_informational
    )
    ranked = [CellRows(cell.series, tuple(sorted(cell.rows, key=sort_rank))) for cell in cells]
    return sorted(ranked, key=lambda cell: (sort_rank(cell.rows[0]), cell.series.cell))
