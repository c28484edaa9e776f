"""API schemas of verdicts, comparisons and expected changes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from perfci.net.api_schemas import (
    VISIBLE_LINE_PATTERN,
    AwareTimestamp,
    Cursor,
    HexKey,
    Page,
    PageQuery,
    RequestShape,
    Shape,
)
from perfci.net.api_schemas.series import OptionalShaPrefix, SeriesShape, TailVerdictShape

MAX_RESULT_SUMMARIES = 10_000

VerdictKindName = Literal[
    "regression", "improvement", "unchanged", "inconclusive", "not_comparable", "missing", "failed"
]
StageName = Literal["screening", "confirmation", "separate_runs"]


class VerdictShape(Shape):
    """What was decided; ``ratio`` is head/base of the raw value, whatever the direction.

    ``tail`` is absent where processes have fewer than ten samples after warm-up.
    """

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
    tail: TailVerdictShape | None = None
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
    """What a series came to at two commits of its history; nothing where it was not measured.

    ``cell``, ``metric`` and ``unit`` come with ``names=true``.
    """

    series: str
    cell: str | None = None
    metric: str | None = None
    unit: str | None = None
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
    names: bool = False


class ResultSummaryPage(Page):
    """Of all series in the history of two commits, compared or not: to be looked at, not to be judged by."""

    items: tuple[ResultSummaryShape, ...]


FullSha = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]


class ExpectedChangeShape(Shape):
    """``commit`` brought the change at ``merged_at``; ``source`` is where it was declared."""

    commit: str
    match: str
    relative_change: float
    reason: str
    source: str
    recorded_by: str
    recorded_at: datetime
    merged_at: datetime | None = None


class ExpectedChangePage(Page):
    items: tuple[ExpectedChangeShape, ...]


class NewExpectedChange(RequestShape):
    """``match`` names a metric, a benchmark or both, with ``*``; ``relative_change`` is that of the value:
    0.03 is 3 % more.
    """

    match: Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE_LINE_PATTERN)]
    relative_change: Annotated[float, Field(ge=-10_000, le=10_000)]
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class NewExpectedChanges(RequestShape):
    """The changes that ``source`` (a pull request such as ``#12``) declared for its merge commit."""

    commit: FullSha
    source: Annotated[str, Field(min_length=1, max_length=100, pattern=VISIBLE_LINE_PATTERN)]
    merged_at: AwareTimestamp | None = None
    items: Annotated[tuple[NewExpectedChange, ...], Field(min_length=1, max_length=20)]


class AddedExpectedChanges(Shape):
    """The number of changes that were not stored before."""

    added: int
