"""API schemas of series, their points and change points."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from perfci.net.api_schemas import (
    VISIBLE_LINE_PATTERN,
    AwareTimestamp,
    HexKey,
    Page,
    PageQuery,
    RequestShape,
    Shape,
)

SearchText = Annotated[str, Field(max_length=500, pattern=rf"{VISIBLE_LINE_PATTERN[:-2]}*$")]
"""One line to search for, which may be empty."""
OptionalShaPrefix = Annotated[str, Field(pattern=r"^([0-9a-f]{7,64})?$")]

MAX_POINTS = 2000
"""Points one answer holds; neighbours of a longer series are merged."""


class SeriesShape(Shape):
    """``id`` names the series in addresses and stays the same in every database."""

    id: HexKey
    benchmark: str
    version: str
    parameters: dict[str, str]
    metric: str
    unit: str
    direction: str
    machine: str
    variant: dict[str, str]
    harness: str


class SeriesQuery(PageQuery):
    benchmark: SearchText = ""
    metric: SearchText = ""


class SeriesPage(Page):
    items: tuple[SeriesShape, ...]


class PointShape(Shape):
    """One commit of a series, or ``merged`` neighbours; ``status`` and ``reason`` explain a missing value."""

    index: int
    commit: str
    subject: str = ""
    author: str = ""
    committed_at: datetime | None = None
    status: str
    value: float | None = None
    value_text: str
    q25: float | None = None
    q75: float | None = None
    processes: int
    merged: int
    reason: str = ""


class SegmentShape(Shape):
    """The level from ``value`` at its first point to ``end`` at its last; a chart writes ``label``."""

    first: int
    last: int
    value: float
    value_text: str
    end: float
    label: str = ""


class TailVerdictShape(Shape):
    """What the samples that one in ten is worse than did; ``quantile`` is p10 where more is better."""

    quantile: Literal["p90", "p10"]
    verdict: str
    ratio: float
    interval: tuple[float, float] | None = None


class ChangePointShape(Shape):
    """A commit where the level moved; ``state`` says how sure that is. ``ratio`` is after/before, and
    ``interval`` its 95 % interval; ``tail`` is absent where it was not measured on pairs."""

    index: int
    last_good_index: int
    commit: str
    last_good: str
    ratio: float
    interval: tuple[float, float] | None = None
    before: float
    after: float
    sentence: str
    levels_text: str = ""
    tail: TailVerdictShape | None = None
    tail_text: str = ""
    kind: str
    state: str


class PointsQuery(RequestShape):
    """``max_points`` merges neighbours down to about so many points; the dates are those of the commits."""

    max_points: Annotated[int, Field(ge=2, le=MAX_POINTS)] = 500
    since: AwareTimestamp | None = None
    until: AwareTimestamp | None = None


class SeriesPointsShape(Shape):
    series: SeriesShape
    sentence: str
    commits: int
    points: tuple[PointShape, ...]
    levels: tuple[SegmentShape, ...]
    changes: tuple[ChangePointShape, ...]
