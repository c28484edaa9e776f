"""The list of benchmarks: where is mine, how does it stand, what moved it last?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import CPU_TWIN, ChangePoint, Series, Stage, Verdict
from perfci.report.charts.series_trend import Mark, Trend, of_witness, tail
from perfci.report.serializers import series_fields
from perfci.report.verdict_labels import MOVES
from perfci.store.queries.records import KnownSeries, SeriesRecord, answers
from perfci.verdicts.process_levels import place_of
from perfci_web.view_parts.cells import Cell, by_cell
from perfci_web.view_parts.missing_reasons import Reason, by_reason

PAGE_SIZE = 50
SPARKLINE_COMMITS = 60
BY_CHANGE, BY_COMMITS, BY_STATE = "change", "commits", "state"
SORTS = {"name": "name", BY_CHANGE: "largest change", BY_COMMITS: "commits", BY_STATE: "failures first"}
UNAVAILABLE = "unavailable"
"""What ``show`` asks for to see the series that were never measured, and why; all other pages leave them out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One series of the list: the end of its trend, and its last change that stands, however long ago."""

    record: SeriesRecord
    trend: Trend
    last_change: Mark | None
    judged: bool

    @property
    def level(self) -> float | None:
        """Where it stands; of what is not judged the newest value."""
        return self.trend.levels[-1].value if self.trend.levels else self.trend.last_level


@dataclass(frozen=True, slots=True)
class Selection:
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
    known: int
    unavailable: int
    cells: tuple[Cell[KnownSeries], ...]
    places: tuple[str, ...]

    @property
    def series(self) -> list[KnownSeries]:
        return [one for cell in self.cells for one in cell.rows]


def selection(
    everything: Sequence[KnownSeries],
    ranks: Mapping[Series, float],
    *,
    query: str = "",
    sort: str = "name",
    page: int = 1,
    show: str = "",
) -> Selection:
    """Search, sort and cut out one page; knobs that make no sense fall back to the nearest that does.

    ``ranks`` are what to sort by, the largest first; what has none counts as zero, and equals are sorted by name.
    """
    sort, show = sort if sort in SORTS else "name", show if show == UNAVAILABLE else ""
    found = [one for one in everything if answers(one.series, query)] if query else everything
    shown = [one for one in found if one.never_measured == bool(show)]
    pages = _pages(_sorted_cells(shown, ranks))
    page = min(max(1, page), len(pages))
    return Selection(
        query=query,
        sort=sort,
        show=show,
        page=page,
        pages=len(pages),
        total=len(shown),
        benchmarks=len({one.series.benchmark.name for one in shown}),
        known=sum(not one.never_measured for one in everything),
        unavailable=sum(one.never_measured for one in found),
        cells=tuple(pages[page - 1]),
        places=_places(shown),
    )


def with_twins(some: Sequence[KnownSeries], everything: Iterable[KnownSeries]) -> list[KnownSeries]:
    """Some series and what reads the same with another clock: only both tell which of the two is judged."""
    held = {(place_of(one.series), one.series.metric.name.removeprefix(CPU_TWIN)) for one in some}
    ids = {one.id for one in some}
    twins = [
        one
        for one in everything
        if one.id not in ids and (place_of(one.series), one.series.metric.name.removeprefix(CPU_TWIN)) in held
    ]
    return [*some, *twins]


def sizes_of_changes(changes: Iterable[ChangePoint], verdicts: Iterable[Verdict]) -> dict[Series, float]:
    """The largest change of each series, the same for half and for double, without reading a history."""
    sizes: dict[Series, float] = {}
    moves = [(change.series, 1 + change.rel) for change in changes]
    moves += [
        (one.series, one.ratio) for one in verdicts if one.kind in MOVES and one.stage is Stage.CONVICTION and one.ratio
    ]
    for series, ratio in moves:
        sizes[series] = max(sizes.get(series, 0.0), abs(math.log(ratio)) if ratio > 0 else math.inf)
    return sizes


def row(record: SeriesRecord, trend: Trend, *, judged: bool = True) -> Row:
    judged = judged and not record.witness
    standing = [mark for mark in trend.marks if mark.state != "refuted"]
    shown = tail(trend if judged else of_witness(trend), SPARKLINE_COMMITS)
    return Row(record, shown, standing[-1] if standing else None, judged)


def row_fields(row: Row) -> dict[str, Any]:
    """One row of the JSON and CSV twins."""
    change, record = row.last_change, row.record
    return {
        **series_fields(record.series),
        "judged": row.judged,
        "commits": record.points,
        "last_commit": record.last_commit_sha or "",
        "last_status": record.last_status.value if record.last_status else "",
        "last_reason": record.last_reason,
        "level": row.level,
        "last_change_commit": change.commit if change else "",
        "last_change_ratio": change.ratio if change else None,
        "last_change_state": change.state if change else "",
    }


def reasons(records: Iterable[SeriesRecord], query: str) -> tuple[Reason, ...]:
    """Why the series of a search that were never measured were not."""
    never = [one for one in records if one.never_measured and answers(one.series, query)]
    stored = sorted(never, key=lambda record: (record.series.cell, record.id))
    return by_reason((one.last_reason, one.series) for one in stored)


def _sorted_cells(some: Iterable[KnownSeries], ranks: Mapping[Series, float]) -> list[Cell[KnownSeries]]:
    """A cell stands where the first of its rows would."""

    def last_ranked(one: KnownSeries) -> float:
        return -ranks.get(one.series, 0.0)

    stored = sorted(some, key=lambda one: (one.series.cell, one.id))
    cells = by_cell(stored, lambda one: one.series, lambda one: one.witness)
    ranked = [Cell(cell.series, tuple(sorted(cell.rows, key=last_ranked))) for cell in cells]
    return sorted(ranked, key=lambda cell: (last_ranked(cell.rows[0]), cell.series.cell))


def _pages(cells: Iterable[Cell[KnownSeries]]) -> list[list[Cell[KnownSeries]]]:
    """Pages of about as many rows each; no cell is torn apart."""
    pages: list[list[Cell[KnownSeries]]] = [[]]
    held = 0
    for cell in cells:
        if pages[-1] and held + len(cell.rows) > PAGE_SIZE:
            pages.append([])
            held = 0
        pages[-1].append(cell)
        held += len(cell.rows)
    return pages


def _places(some: Iterable[KnownSeries]) -> tuple[str, ...]:
    """Machine and chosen environment, once each."""
    labels = ((one.series.machine.label, one.series.variant.label) for one in some)
    return tuple(dict.fromkeys(" · ".join(filter(None, label)) for label in labels))
