"""Verdicts and comparisons as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from perfci.net.shapes import Cursor, HexKey, Page, PageQuery, RequestShape, Shape
from perfci.net.shapes.series import OptionalShaPrefix, SeriesShape

MAX_RESULT_SUMMARIES = 10_000

VerdictKindName = Literal[
    "regression", "improvement", "unchanged", "inconclusive", "not_comparable", "missing", "failed"
]
StageName = Literal["screening", "confirmation"]


class VerdictShape(Shape):
    """What was decided; ``ratio`` is head/base of the raw value, whatever the direction."""

    id: int
    verdict: str
    stage: str
    sentence: str
    series: SeriesShape
    base: str
    head: str
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    base_level: float | None = None
    head_level: float | None = None
    noise_floor: float | None = None
    mde: float | None = None
    pairs: int
    pairs_to_decide: int | None = None
    p_value: float | None = None
    reason: str = ""
    evidence: tuple[int, ...] = ()
    session: str
    created_at: datetime
    superseded_by: int | None = None


class VerdictQuery(PageQuery):
    base: OptionalShaPrefix = ""
    head: OptionalShaPrefix = ""
    verdict: VerdictKindName | None = None
    stage: StageName | None = None
    series: HexKey | None = None
    superseded: bool = False


class VerdictPage(Page):
    items: tuple[VerdictShape, ...]


class VerdictProcessShape(Shape):
    """One process that a verdict rests on."""

    id: int
    commit: str
    role: str
    status: str
    pair: int | None = None
    clock: str
    samples: tuple[float, ...]
    flags: tuple[str, ...] = ()
    reason: str = ""


class VerdictDetailShape(VerdictShape):
    processes: tuple[VerdictProcessShape, ...]


class ResultSummaryShape(Shape):
    """What a series came to at two commits of its history; nothing where it was not measured."""

    series: str
    base: float | None = None
    head: float | None = None


class ComparisonPage(Page):
    """What stands between two commits: one current verdict for each series that was compared, worst first.

    ``counts`` are of all of them, by verdict, whatever page this is.
    """

    base: str
    head: str
    counts: dict[VerdictKindName, int]
    items: tuple[VerdictShape, ...]


class ResultSummaryQuery(RequestShape):
    """As a page of other lists; a level is small, so more of them come at once."""

    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_RESULT_SUMMARIES)] = MAX_RESULT_SUMMARIES


class ResultSummaryPage(Page):
    """Of all series in the history of two commits, compared or not: to be looked at, not to be judged by."""

    items: tuple[ResultSummaryShape, ...]
