"""The list of benchmarks: where is mine, how does it stand, what moved it last?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import CPU_METRIC_PREFIX, ChangePoint, Series, Stage, Verdict
from perfci.report.charts.series_trend import (
    ChangeMark,
    Trend,
    hide_levels_of_informational,
    keep_last_commits,
)
from perfci.report.serializers import serialize_series
from perfci.report.verdict_labels import CHANGE_KINDS
from perfci.store.queries.records import SeriesRecord, StoredSeries, matches_search
from perfci.verdicts.process_levels import key_without_metric
from perfci_web.view_parts.cells import CellRows, group_by_cell
from perfci_web.view_parts.missing_reasons import MissingReason, group_by_reason

PAGE_SIZE = 50
SPARKLINE_COMMITS = 60
BY_CHANGE, BY_COMMITS, BY_STATE = "change", "commits", "state"
SORTS = {"name": "name", BY_CHANGE: "largest change", BY_COMMITS: "commits", BY_STATE: "failures first"}
UNAVAILABLE = "unavailable"
"""What ``show`` asks for to see the series that were never measured, and why; all other pages leave them out."""


@dataclass(frozen=True, slots=True)
class SeriesListRow:
    """One series of the list: the end of its trend, and its last change that stands, however long ago."""

    record: SeriesRecord
    trend: Trend
    last_change: ChangeMark | None
    judged: bool

    @property
    def level(self) -> float | None:
        """Where it stands; of what is not judged the newest value."""
        return self.trend.levels[-1].value if self.trend.levels else self.trend.last_level


@dataclass(frozen=True, slots=True)
class SeriesSelection:
    """Which series a request asks for, before their histories are read; ``places`` are where they were measured.

    ``known`` counts all that were ever measured, ``unavailable`` those of the search that never were.
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
    places: tuple[str, ...]

    @property
    def series(self) -> list[StoredSeries]:
        return [one for cell in self.cells for one in cell.rows]


def select_series(
    all_series: Sequence[StoredSeries],
    ranks: Mapping[Series, float],
    *,
    query: str = "",
    sort: str = "name",
    page: int = 1,
    show: str = "",
) -> SeriesSelection:
    """Search, sort and cut out one page; knobs that make no sense fall back to the nearest that does.

    ``ranks`` are what to sort by, the largest first; what has none counts as zero, and equals are sorted by name.
    """
    sort, show = sort if sort in SORTS else "name", show if show == UNAVAILABLE else ""
    found = [one for one in all_series if matches_search(one.series, query)] if query else all_series
    shown = [one for one in found if one.never_measured == bool(show)]
    pages = _paginate(_sort_cells(shown, ranks))
    page = min(max(1, page), len(pages))
    return SeriesSelection(
        query=query,
        sort=sort,
        show=show,
        page=page,
        pages=len(pages),
        total=len(shown),
        benchmarks=len({one.series.benchmark.name for one in shown}),
        measured=sum(not one.never_measured for one in all_series),
        unavailable=sum(one.never_measured for one in found),
        cells=tuple(pages[page - 1]),
        places=_list_places(shown),
    )


def add_clock_twins(
    selected: Sequence[StoredSeries], all_series: Iterable[StoredSeries]
) -> list[StoredSeries]:
    """Some series and what reads the same with another clock: only both tell which of the two is judged."""
    held = {
        (key_without_metric(one.series), one.series.metric.name.removeprefix(CPU_METRIC_PREFIX))
        for one in selected
    }
    ids = {one.id for one in selected}
    twins = [
        one
        for one in all_series
        if one.id not in ids
        and (key_without_metric(one.series), one.series.metric.name.removeprefix(CPU_METRIC_PREFIX)) in held
    ]
    return [*selected, *twins]


def largest_changes(changes: Iterable[ChangePoint], verdicts: Iterable[Verdict]) -> dict[Series, float]:
    """The largest change of each series, the same for half and for double, without reading a history."""
    sizes: dict[Series, float] = {}
    moves = [(change.series, 1 + change.relative_change) for change in changes]
    moves += [
        (one.series, one.ratio)
        for one in verdicts
        if one.kind in CHANGE_KINDS and one.stage is Stage.CONFIRMATION and one.ratio
    ]
    for series, ratio in moves:
        sizes[series] = max(sizes.get(series, 0.0), abs(math.log(ratio)) if ratio > 0 else math.inf)
    return sizes


def build_row(record: SeriesRecord, trend: Trend, *, judged: bool = True) -> SeriesListRow:
    judged = judged and not record.is_informational
    standing = [mark for mark in trend.marks if mark.state != "refuted"]
    shown = keep_last_commits(trend if judged else hide_levels_of_informational(trend), SPARKLINE_COMMITS)
    return SeriesListRow(record, shown, standing[-1] if standing else None, judged)


def serialize_row(series_row: SeriesListRow) -> dict[str, Any]:
    """One row of the JSON and CSV twins."""
    change, record = series_row.last_change, series_row.record
    return {
        **serialize_series(record.series),
        "judged": series_row.judged,
        "commits": record.points,
        "last_commit": record.last_commit_sha or "",
        "last_status": record.last_status.value if record.last_status else "",
        "last_reason": record.last_reason,
        "level": series_row.level,
        "last_change_commit": change.commit if change else "",
        "last_change_ratio": change.ratio if change else None,
        "last_change_state": change.state if change else "",
    }


def group_reasons(records: Iterable[SeriesRecord], query: str) -> tuple[MissingReason, ...]:
    """Why the series of a search that were never measured were not."""
    never = [one for one in records if one.never_measured and matches_search(one.series, query)]
    stored = sorted(never, key=lambda record: (record.series.cell, record.id))
    return group_by_reason((one.last_reason, one.series) for one in stored)


def _sort_cells(
    series: Iterable[StoredSeries], ranks: Mapping[Series, float]
) -> list[CellRows[StoredSeries]]:
    """A cell stands where the first of its rows would."""

    def sort_rank(known_series: StoredSeries) -> float:
        return -ranks.get(known_series.series, 0.0)

    stored = sorted(series, key=lambda one: (one.series.cell, one.id))
    cells = group_by_cell(stored, lambda one: one.series, lambda one: one.is_informational)
    ranked = [CellRows(cell.series, tuple(sorted(cell.rows, key=sort_rank))) for cell in cells]
    return sorted(ranked, key=lambda cell: (sort_rank(cell.rows[0]), cell.series.cell))


def _paginate(cells: Iterable[CellRows[StoredSeries]]) -> list[list[CellRows[StoredSeries]]]:
    """Pages of about as many rows each; no cell is torn apart."""
    pages: list[list[CellRows[StoredSeries]]] = [[]]
    held = 0
    for cell in cells:
        if pages[-1] and held + len(cell.rows) > PAGE_SIZE:
            pages.append([])
            held = 0
        pages[-1].append(cell)
        held += len(cell.rows)
    return pages


def _list_places(series: Iterable[StoredSeries]) -> tuple[str, ...]:
    """Machine and chosen environment, once each."""
    labels = ((one.series.machine.label, one.series.variant.label) for one in series)
    return tuple(dict.fromkeys(" · ".join(filter(None, label)) for label in labels))
