"""API schemas of measurement orders: what people ask for, and what workers report."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from perfci.net.api_schemas import VISIBLE_LINE_PATTERN, HexKey, Page, PageQuery, RequestShape, Shape
from perfci.net.api_schemas.verdicts_and_expected_changes import VerdictKindName

FullSha = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
VISIBLE_CHARACTER = VISIBLE_LINE_PATTERN[1:-2]
NOT_A_DASH = VISIBLE_CHARACTER.replace("[^", r"[^\-")
BenchExpression = Annotated[str, Field(max_length=200, pattern=f"^({NOT_A_DASH}{VISIBLE_CHARACTER}*)?$")]
"""A regular expression on one line that no program takes for an option."""
EngineName = Literal["local", "github", "ray"]
OrderKindName = Literal["compare", "measure", "bisect", "backfill"]
BisectOutcomeName = Literal["named", "narrowed", "unconfirmed", "spread", "no_difference"]
OrderStateName = Literal["queued", "dispatched", "running", "done", "failed", "cancelled"]
RowNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
LeaseToken = Annotated[int, Field(ge=1, le=2**53)]
WorkerName = Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE_LINE_PATTERN)]
ProgressText = Annotated[str, Field(max_length=200, pattern=f"^{VISIBLE_CHARACTER}*$")]
ProblemText = Annotated[str, Field(min_length=1, max_length=2000, pattern=VISIBLE_LINE_PATTERN)]
SessionUid = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]
VerdictCount = Annotated[int, Field(ge=0, le=10**9)]
MetricName = Annotated[str, Field(max_length=200, pattern=f"^{VISIBLE_CHARACTER}*$")]
Reason = Annotated[str, Field(max_length=500, pattern=f"^{VISIBLE_CHARACTER}*$")]
Count = Annotated[int, Field(ge=0, le=10**6)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
RelativeChange = Annotated[float, Field(ge=-1, le=10**9, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=10**9, allow_inf_nan=False)]
ProcessLimit = Annotated[int, Field(ge=1, le=10_000)]
SecondsLimit = Annotated[int, Field(ge=60, le=7 * 86_400)]
Stride = Annotated[int, Field(ge=1, le=10_000)]

MAX_SHOWN_CANDIDATES, MAX_SHOWN_FAILURES = 50, 100
"""Commits that an order shows: the likeliest ones, and those that cannot be measured."""


class NewOrder(RequestShape):
    """What is to be measured: pairs of ``base`` and ``head``, or without a base the commit ``head`` alone.

    ``kind`` asks for something else of the range: ``bisect`` for the commit after ``base`` that moved one
    ``metric`` of the one benchmark that matches, ``backfill`` for results of its commits that have none,
    every ``stride``-th of them, the coarse picture first. Both end after ``max_processes``, a bisect after
    ``budget_s`` seconds too.

    ``bench`` is a regular expression, empty for all benchmarks. Without ``pairs`` the measurement decides how
    many it needs. ``incident`` and ``series`` say what it is asked for; they change nothing of what is
    measured.
    """

    kind: OrderKindName | None = None
    base: FullSha | None = None
    head: FullSha
    bench: BenchExpression = ""
    metric: MetricName = ""
    max_processes: ProcessLimit | None = None
    budget_s: SecondsLimit | None = None
    stride: Stride | None = None
    pairs: Annotated[int, Field(ge=4, le=200)] | None = None
    suite: Literal["", "default", "full"] = ""
    engine: EngineName = "local"
    incident: RowNumber | None = None
    series: HexKey | None = None


class IncidentOrder(RequestShape):
    """What bounds a bisect or a backfill of an incident, which says itself what is searched."""

    max_processes: ProcessLimit | None = None
    budget_s: SecondsLimit | None = None
    engine: EngineName | None = None


class OrderRequestShape(Shape):
    """One who asked for an order, from where, and about what."""

    requested_by: str
    source: str
    requested_at: datetime
    pull: int | None = None
    incident: int | None = None
    series: str | None = None


class LikelyCommit(RequestShape):
    """A commit, and how likely it is that it moved the level."""

    commit: FullSha
    probability: Probability


class BisectShape(RequestShape):
    """How far a bisect is: ``outcome`` is absent while it is not over.

    The level moved between ``after``, which has the old one, and ``commit``, which has the new one, with this
    ``probability``. ``commits`` are those of the range, ``commits_left`` the fewest of them that have 95 % of
    the probability.
    """

    benchmark: MetricName
    metric: MetricName
    base: FullSha
    head: FullSha
    outcome: BisectOutcomeName | None = None
    after: FullSha | None = None
    commit: FullSha | None = None
    probability: Probability | None = None
    change: RelativeChange | None = None
    interval: tuple[RelativeChange, RelativeChange] | None = None
    candidates: Annotated[tuple[LikelyCommit, ...], Field(max_length=MAX_SHOWN_CANDIDATES)] = ()
    commits: Count
    commits_left: Count
    processes: Count
    commits_measured: Count
    machine_s: Seconds
    unmeasurable: Annotated[dict[FullSha, Reason], Field(max_length=MAX_SHOWN_FAILURES)] = {}
    session: SessionUid


class BackfillShape(RequestShape):
    """How far a backfill is: of ``commits`` in the range so many had results, and so many are to be measured,
    in ``waves`` from coarse to fine.
    """

    commits: Count
    commits_with_results: Count
    commits_chosen: Count
    commits_measured: Count
    waves: Count
    waves_done: Count
    processes: Count
    unmeasurable: Annotated[dict[FullSha, Reason], Field(max_length=MAX_SHOWN_FAILURES)] = {}


class OrderFindings(RequestShape):
    """What a bisect or a backfill knows so far."""

    bisect: BisectShape | None = None
    backfill: BackfillShape | None = None


class OrderResultShape(Shape):
    """What a measurement came to: the worst verdict, how many there are of each, and the sessions of its
    runs.
    """

    verdict: str
    counts: dict[str, int] = {}
    sessions: tuple[str, ...] = ()


class OrderShape(Shape):
    """An order and all who asked for it; ``result`` is there once it is done, ``problem`` says why there is
    none. A bisect and a backfill say from the first process on how far they are.
    """

    id: int
    kind: str
    base: str | None = None
    head: str
    bench: str = ""
    pairs: int | None = None
    suite: str = ""
    metric: str = ""
    max_processes: int | None = None
    budget_s: int | None = None
    stride: int | None = None
    engine: str
    state: str
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempts: int = 0
    worker: str = ""
    progress: str = ""
    problem: str = ""
    external_url: str = ""
    requests: tuple[OrderRequestShape, ...] = ()
    result: OrderResultShape | None = None
    bisect: BisectShape | None = None
    backfill: BackfillShape | None = None


class OrderQuery(PageQuery):
    """``state`` is one state, or ``open`` or ``closed`` for several."""

    state: OrderStateName | Literal["open", "closed"] | None = None


class OrderPage(Page):
    items: tuple[OrderShape, ...]


class OrderClaim(RequestShape):
    """``worker`` names one process of a machine: claiming again, it gets the order it holds."""

    worker: WorkerName
    engine: EngineName = "local"


class ClaimedOrder(Shape):
    """``lease`` proves in later requests who holds the order; it ends without a heartbeat for so long.

    ``measured`` are commits that a backfill leaves out, as they have results of what it measures.
    """

    order: OrderShape
    lease: int
    lease_s: float
    measured: tuple[str, ...] = ()


class OrderHeartbeat(RequestShape):
    """``progress`` and ``findings`` stay as they are where they are absent."""

    lease: LeaseToken
    progress: ProgressText | None = None
    findings: OrderFindings | None = None


class OrderLeaseShape(Shape):
    """Whether the worker still holds the order; where it does not, ``state`` says whether it was closed."""

    held: bool
    state: str


class NewOrderResult(RequestShape):
    """``verdict`` is the worst of the judged benchmarks, ``measured`` where nothing was compared; of a bisect
    it is the outcome, ``unfinished`` where its budget ended before there was one.
    """

    verdict: VerdictKindName | Literal["measured", "unfinished"] | BisectOutcomeName
    counts: dict[VerdictKindName, VerdictCount] = {}
    sessions: Annotated[tuple[SessionUid, ...], Field(max_length=100)] = ()
    findings: OrderFindings | None = None


class OrderFinish(RequestShape):
    lease: LeaseToken
    result: NewOrderResult


class OrderFailure(RequestShape):
    lease: LeaseToken
    problem: ProblemText


class OrderRelease(RequestShape):
    lease: LeaseToken
