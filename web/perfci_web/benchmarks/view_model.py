"""The view model of the list of benchmarks: level, trend and last change of each series."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from perfci.model import Series
from perfci.report.serializers import serialize_series
from perfci.report.series_trend import (
    ChangeMark,
    Trend,
)
from perfci.store.queries.query_records import (
    SeriesRecord,
    StoredSeries,
    build_search_text,
    series_matches_search,
)
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
UNAVAILABLE, ARCHIVED = "unavailable", "archived"
"""Values of ``show``: series that were never measured, with reasons, and those that are not measured any
more. Other pages of the list leave both out.
"""


@dataclass(frozen=True, slots=True)
class SeriesListRow:
    """One series of the list, with the end of its trend and its last change that was not refuted.

    ``broken_since`` is the date of the first commit without a value, of those since the last value.
    """

    record: SeriesRecord
    trend: Trend
    current_level: float | None
    last_change: ChangeMark | None
    judged: bool
    broken_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class SeriesList:
    """All series of a project in the order of their cells: those that are measured, those that never were,
    and those that are not any more."""

    measured: tuple[CellRows[StoredSeries], ...]
    unmeasured: tuple[CellRows[StoredSeries], ...]
    search_texts: Mapping[int, str]
    archived: tuple[CellRows[StoredSeries], ...] = ()

    def search(self, cells: Sequence[CellRows[StoredSeries]], query: str) -> Sequence[CellRows[StoredSeries]]:
        """The cells of the series with every word of a query in their names."""
        words = query.lower().split()
        if not words:
            return cells
        matches = []
        for cell in cells:
            rows = tuple(row for row in cell.rows if all(word in self.search_texts[row.id] for word in words))
            if rows:
                matches.append(CellRows(rows[0].series, rows))
        return matches

    def find_namesakes(self, series: Iterable[Series]) -> list[Series]:
        """All series with the benchmarks of these."""
        names = {item.benchmark.name for item in series}
        cells = (*self.measured, *self.unmeasured, *self.archived)
        return [row.series for cell in cells if cell.series.benchmark.name in names for row in cell.rows]


def build_series_list(
    all_series: Iterable[StoredSeries], archived_ids: Collection[int] = frozenset()
) -> SeriesList:
    """Sort all series of a project by cell."""
    ordered = sorted(all_series, key=lambda stored: (stored.series.cell, stored.id))
    never = [stored for stored in ordered if stored.never_measured]
    ever = [stored for stored in ordered if not stored.never_measured]
    measured, unmeasured, archived = (
        group_rows_by_benchmark_cell(
            group, lambda stored: stored.series, lambda stored: stored.is_informational
        )
        for group in (
            [stored for stored in ever if stored.id not in archived_ids],
            never,
            [stored for stored in ever if stored.id in archived_ids],
        )
    )
    texts = {stored.id: build_search_text(stored.series) for stored in ordered}
    return SeriesList(tuple(measured), tuple(unmeasured), texts, tuple(archived))


@dataclass(frozen=True, slots=True)
class SeriesSelection:
    """The series of one page, selected before their histories are read.

    ``total`` counts the series of the search, ``measured`` all that are measured, ``unavailable`` those of
    the search that never were, ``archived`` those of the search that are not any more.
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
    archived: int
    cells: tuple[CellRows[StoredSeries], ...]

    @property
    def series(self) -> list[StoredSeries]:
        return [stored for cell in self.cells for stored in cell.rows]


def select_series_page(
    listed: SeriesList,
    ranks: Mapping[int, float],
    *,
    query: str = "",
    sort: str = "name",
    page: int = 1,
    show: str = "",
) -> SeriesSelection:
    """Search, sort and cut out one page; invalid options fall back to the nearest valid value.

    ``ranks`` are the values to sort by, largest first, by series id; a series without one counts as zero,
    ties are sorted by name.
    """
    sort, show = sort if sort in SORTS else "name", show if show in (UNAVAILABLE, ARCHIVED) else ""
    unmeasured, archived = (listed.search(cells, query) for cells in (listed.unmeasured, listed.archived))
    others = {UNAVAILABLE: unmeasured, ARCHIVED: archived}
    shown = others[show] if show else listed.search(listed.measured, query)
    pages = paginate_cells(_sort_cells(shown, ranks) if ranks else shown)
    page = min(max(1, page), len(pages))
    return SeriesSelection(
        query=query,
        sort=sort,
        show=show,
        page=page,
        pages=len(pages),
        total=_count_rows(shown),
        benchmarks=len({cell.series.benchmark.name for cell in shown}),
        measured=_count_rows(listed.measured),
        unavailable=_count_rows(unmeasured),
        archived=_count_rows(archived),
        cells=tuple(pages[page - 1]),
    )


def _count_rows(cells: Iterable[CellRows[StoredSeries]]) -> int:
    return sum(len(cell.rows) for cell in cells)


def rank_by_largest_change(ratios: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return the largest change of each series as ``abs(log(ratio))``; halving and doubling are equal."""
    sizes: dict[int, float] = {}
    for series_id, ratio in ratios:
        sizes[series_id] = max(sizes.get(series_id, 0.0), abs(math.log(ratio)) if ratio > 0 else math.inf)
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
    since = trend.record.failing_since if trend.record.is_last_failed else None
    return SeriesListRow(record, end, trend.current_level, trend.last_change, judged, since)


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
    cells: Iterable[CellRows[StoredSeries]], ranks: Mapping[int, float]
) -> list[CellRows[StoredSeries]]:
    """Sort cells, given by name, by the rank of their first rows."""

    def sort_rank(stored: StoredSeries) -> float:
        return -ranks.get(stored.id, 0.0)

    ranked = [CellRows(cell.series, tuple(sorted(cell.rows, key=sort_rank))) for cell in cells]
    return sorted(ranked, key=lambda cell: sort_rank(cell.rows[0]))
