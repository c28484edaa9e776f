"""The list of benchmarks: where is mine, how does it stand, what moved it last?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfci.model import ChangePoint, Series, Stage, Verdict
from perfci.report.fields import series_fields
from perfci.report.trend import Mark, Trend
from perfci.report.words import MOVES
from perfci.store.records import SeriesRecord

PAGE_SIZE = 50
SPARKLINE_COMMITS = 60
SORTS = {"name": "name", "change": "largest change", "commits": "commits", "state": "failures first"}


@dataclass(frozen=True, slots=True)
class Row:
    """One series of the list; ``last_change`` is its last change that stands."""

    record: SeriesRecord
    trend: Trend
    last_change: Mark | None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which series a request asks for, before their histories are read; ``places`` are where they were measured."""

    query: str
    sort: str
    page: int
    pages: int
    total: int
    known: int
    records: tuple[SeriesRecord, ...]
    places: tuple[str, ...]


def selection(
    records: Sequence[SeriesRecord],
    sizes: Mapping[Series, float],
    *,
    known: int,
    query: str = "",
    sort: str = "name",
    page: int = 1,
) -> Selection:
    """Sort what the search found and cut out one page; knobs that make no sense fall back to the nearest that does."""
    sort = sort if sort in SORTS else "name"
    pages = max(1, math.ceil(len(records) / PAGE_SIZE))
    page = min(max(1, page), pages)
    ordered = sorted(records, key=lambda record: (*_rank(record, sizes, sort), record.series.label, record.id))
    shown = ordered[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return Selection(query, sort, page, pages, len(records), known, tuple(shown), _places(records))


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


def row(record: SeriesRecord, trend: Trend) -> Row:
    standing = [mark for mark in trend.marks if mark.state != "refuted"]
    return Row(record, trend, standing[-1] if standing else None)


def row_fields(row: Row) -> dict[str, Any]:
    """One row of the JSON and CSV twins."""
    change = row.last_change
    return {
        **series_fields(row.record.series),
        "commits": row.record.points,
        "last_commit": row.record.last_commit_sha or "",
        "last_status": "failed" if row.record.failed_last else "ok",
        "level": row.trend.levels[-1].value if row.trend.levels else None,
        "last_change_commit": change.commit if change else "",
        "last_change_ratio": change.ratio if change else None,
        "last_change_state": change.state if change else "",
    }


def _places(records: Iterable[SeriesRecord]) -> tuple[str, ...]:
    """Machine and chosen environment, once each."""
    labels = ((record.series.machine.label, record.series.variant.label) for record in records)
    return tuple(dict.fromkeys(" · ".join(filter(None, label)) for label in labels))


def _rank(record: SeriesRecord, sizes: Mapping[Series, float], sort: str) -> tuple[float, ...]:
    ranks: dict[str, tuple[float, ...]] = {
        "name": (),
        "change": (-sizes.get(record.series, 0.0),),
        "commits": (-record.points,),
        "state": (not record.failed_last,),
    }
    return ranks[sort]
