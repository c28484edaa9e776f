"""The list of benchmarks: where is mine, how does it stand, what moved it last?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import CPU_TWIN, ChangePoint, Series, Stage, Verdict
from perfci.report.fields import series_fields
from perfci.report.trend import Mark, Trend, of_witness, tail
from perfci.report.words import MOVES
from perfci.store.records import SeriesRecord, answers
from perfci.verdicts.levels import place_of
from perfci_web.pages.cells import Cell, by_cell
from perfci_web.pages.reasons import Reason, by_reason

PAGE_SIZE = 50
SPARKLINE_COMMITS = 60
BY_CHANGE = "change"
SORTS = {"name": "name", BY_CHANGE: "largest change", "commits": "commits", "state": "failures first"}
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
    cells: tuple[Cell[SeriesRecord], ...]
    places: tuple[str, ...]

    @property
    def records(self) -> list[SeriesRecord]:
        return [record for cell in self.cells for record in cell.rows]


def selection(
    everything: Sequence[SeriesRecord],
    sizes: Mapping[Series, float],
    *,
    query: str = "",
    sort: str = "name",
    page: int = 1,
    show: str = "",
) -> Selection:
    """Search, sort and cut out one page; knobs that make no sense fall back to the nearest that does."""
    sort, show = sort if sort in SORTS else "name", show if show == UNAVAILABLE else ""
    found = [record for record in everything if answers(record.series, query)]
    records = [record for record in found if record.never_measured == bool(show)]
    pages = _pages(_sorted_cells(records, sizes, sort))
    page = min(max(1, page), len(pages))
    return Selection(
        query=query,
        sort=sort,
        show=show,
        page=page,
        pages=len(pages),
        total=len(records),
        benchmarks=len({record.series.benchmark.name for record in records}),
        known=sum(not record.never_measured for record in everything),
        unavailable=sum(record.never_measured for record in found),
        cells=tuple(pages[page - 1]),
        places=_places(records),
    )


def with_twins(records: Sequence[SeriesRecord], everything: Iterable[SeriesRecord]) -> list[SeriesRecord]:
    """Some series and what reads the same with another clock: only both tell which of the two is judged."""
    held = {(place_of(one.series), one.series.metric.name.removeprefix(CPU_TWIN)) for one in records}
    ids = {record.id for record in records}
    twins = [
        one
        for one in everything
        if one.id not in ids and (place_of(one.series), one.series.metric.name.removeprefix(CPU_TWIN)) in held
    ]
    return [*records, *twins]


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


def _sorted_cells(
    records: Iterable[SeriesRecord], sizes: Mapping[Series, float], sort: str
) -> list[Cell[SeriesRecord]]:
    """A cell stands where the first of its rows would."""
    stored = sorted(records, key=lambda record: (record.series.cell, record.id))
    cells = by_cell(stored, lambda record: record.series, lambda record: record.witness)
    ranked = [
        Cell(cell.series, tuple(sorted(cell.rows, key=lambda record: _rank(record, sizes, sort)))) for cell in cells
    ]
    return sorted(ranked, key=lambda cell: (*_rank(cell.rows[0], sizes, sort), cell.series.cell))


def _pages(cells: Iterable[Cell[SeriesRecord]]) -> list[list[Cell[SeriesRecord]]]:
    """Pages of about as many rows each; no cell is torn apart."""
    pages: list[list[Cell[SeriesRecord]]] = [[]]
    held = 0
    for cell in cells:
        if pages[-1] and held + len(cell.rows) > PAGE_SIZE:
            pages.append([])
            held = 0
        pages[-1].append(cell)
        held += len(cell.rows)
    return pages


def _places(records: Iterable[SeriesRecord]) -> tuple[str, ...]:
    """Machine and chosen environment, once each."""
    labels = ((record.series.machine.label, record.series.variant.label) for record in records)
    return tuple(dict.fromkeys(" · ".join(filter(None, label)) for label in labels))


def _rank(record: SeriesRecord, sizes: Mapping[Series, float], sort: str) -> tuple[float, ...]:
    ranks: dict[str, tuple[float, ...]] = {
        "name": (),
        BY_CHANGE: (-sizes.get(record.series, 0.0),),
        "commits": (-record.points,),
        "state": (not record.failed_last,),
    }
    return ranks[sort]
