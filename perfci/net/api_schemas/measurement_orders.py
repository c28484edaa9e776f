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
EngineName = Literal["local", "github"]
OrderStateName = Literal["queued", "dispatched", "running", "done", "failed", "cancelled"]
RowNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
LeaseToken = Annotated[int, Field(ge=1, le=2**53)]
WorkerName = Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE_LINE_PATTERN)]
ProgressText = Annotated[str, Field(max_length=200, pattern=f"^{VISIBLE_CHARACTER}*$")]
ProblemText = Annotated[str, Field(min_length=1, max_length=2000, pattern=VISIBLE_LINE_PATTERN)]
SessionUid = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]
VerdictCount = Annotated[int, Field(ge=0, le=10**9)]


class NewOrder(RequestShape):
    """What is to be measured: pairs of ``base`` and ``head``, or without a base the commit ``head`` alone.

    ``bench`` is a regular expression, empty for all benchmarks. Without ``pairs`` the measurement decides how
    many it needs. ``incident`` and ``series`` say what it is asked for; they change nothing of what is
    measured.
    """

    base: FullSha | None = None
    head: FullSha
    bench: BenchExpression = ""
    pairs: Annotated[int, Field(ge=4, le=200)] | None = None
    suite: Literal["", "default", "full"] = ""
    engine: EngineName = "local"
    incident: RowNumber | None = None
    series: HexKey | None = None


class OrderRequestShape(Shape):
    """One who asked for an order, from where, and about what."""

    requested_by: str
    source: str
    requested_at: datetime
    pull: int | None = None
    incident: int | None = None
    series: str | None = None


class OrderResultShape(Shape):
    """What a measurement came to: the worst verdict, how many there are of each, and the sessions of its
    runs.
    """

    verdict: str
    counts: dict[str, int] = {}
    sessions: tuple[str, ...] = ()


class OrderShape(Shape):
    """An order and all who asked for it; ``result`` is there once it is done, ``problem`` says why there is
    none.
    """

    id: int
    kind: str
    base: str | None = None
    head: str
    bench: str = ""
    pairs: int | None = None
    suite: str = ""
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
    """``lease`` proves in later requests who holds the order; it ends without a heartbeat for so long."""

    order: OrderShape
    lease: int
    lease_s: float


class OrderHeartbeat(RequestShape):
    lease: LeaseToken
    progress: ProgressText = ""


class OrderLeaseShape(Shape):
    """Whether the worker still holds the order; where it does not, ``state`` says whether it was closed."""

    held: bool
    state: str


class NewOrderResult(RequestShape):
    """``verdict`` is the worst of the judged benchmarks, ``measured`` where nothing was compared."""

    verdict: VerdictKindName | Literal["measured"]
    counts: dict[VerdictKindName, VerdictCount] = {}
    sessions: Annotated[tuple[SessionUid, ...], Field(max_length=100)] = ()


class OrderFinish(RequestShape):
    lease: LeaseToken
    result: NewOrderResult


class OrderFailure(RequestShape):
    lease: LeaseToken
    problem: ProblemText


class OrderRelease(RequestShape):
    lease: LeaseToken
