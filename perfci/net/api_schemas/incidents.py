"""API schemas of incidents: their events and deliveries, triage requests, and alert quality."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

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
from perfci.net.api_schemas.series import TailVerdictShape

IncidentStateName = Literal[
    "new",
    "investigating",
    "culprit_found",
    "fixed",
    "accepted",
    "reverted",
    "environment",
    "invalid",
    "duplicate",
    "snoozed",
]
IncidentKindName = Literal["regression", "improvement", "mixed", "environment", "machine", "resolved", "data"]

IncidentNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]
OptionalLine = Annotated[str, Field(max_length=500, pattern=rf"{VISIBLE_LINE_PATTERN[:-2]}*$")]
"""One line, which may be empty."""
PersonName = Annotated[str, Field(max_length=100, pattern=rf"{VISIBLE_LINE_PATTERN[:-2]}*$")]
NoteText = Annotated[str, Field(min_length=1, max_length=4000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]+$")]
ShaPrefix = Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
OptionalSha = Annotated[str, Field(pattern=r"^([0-9a-f]{7,64})?$")]
OptionalLink = Annotated[str, Field(max_length=500, pattern=r"^(https?://[^\s<>\x22\x27\x00-\x1f]+)?$")]
"""A link, or nothing: what a page makes a link of must not be a script."""

MAX_BULK_CHANGES = 500


class IncidentShape(Shape):
    """An incident as a list shows it. ``revision`` goes into ``If-Match`` of a change."""

    number: int
    id: str
    kind: str
    state: IncidentStateName
    revision: int
    headline: str
    explanation: str = ""
    disposition_text: str = ""
    disposition: str
    open: bool
    ongoing: bool
    last_good: str
    commit: str
    series_count: int
    severity: float | None = None
    assignee: str = ""
    due_at: datetime | None = None
    snoozed_until: datetime | None = None
    reason: str = ""
    accepted_until: datetime | None = None
    duplicate_of: int | None = None
    issue_url: str = ""
    fix_sha: str = ""
    culprit_sha: str = ""
    verified_at: datetime | None = None
    gone_at: datetime | None = None
    pinned: bool = False
    first_seen: datetime
    changed_at: datetime
    measured_at: datetime | None = None
    paged_at: datetime | None = None
    triaged_at: datetime | None = None


class IncidentSeriesShape(Shape):
    """``series_id`` names the series everywhere in the API; ``relative_change`` is after/before - 1, with
    its 95 % interval, absent for changes stored before intervals were. ``tail`` is absent for changes that
    were not measured on pairs. ``id`` is what the change is called everywhere."""

    id: str = ""
    series_id: HexKey
    series: dict[str, Any]
    sentence: str
    last_good: str
    commit: str
    relative_change: float
    relative_change_interval: tuple[float, float] | None = None
    before: float
    after: float
    tail: TailVerdictShape | None = None
    added_by: str


class IncidentEventShape(Shape):
    at: datetime
    actor: str
    action: str
    before: str
    after: str
    text: str


class DeliveryShape(Shape):
    uid: str
    destination: str
    incident: int
    state: str
    incident_state: str
    attempts: int
    not_before: datetime
    sent_at: datetime | None = None
    problem: str = ""


class ExplanationShape(Shape):
    """Why a benchmark got slower between two commits, as `perfci explain` stored it.

    Each of ``causes`` has its line, phase, operator and share of the slowdown; the tables hold what grew.
    """

    benchmark: str
    metric: str
    base: str
    head: str
    conclusion: str
    sentence: str
    explained_at: datetime
    causes: tuple[dict[str, Any], ...] = ()
    counts: tuple[dict[str, Any], ...] = ()
    phases: tuple[dict[str, Any], ...] = ()
    lines: tuple[dict[str, Any], ...] = ()
    operators: tuple[dict[str, Any], ...] = ()
    kernels: tuple[dict[str, Any], ...] = ()
    environment: tuple[dict[str, Any], ...] = ()


class IncidentDetailShape(IncidentShape):
    """One incident with its series, its activity log, its notifications and what explains it."""

    members: tuple[IncidentSeriesShape, ...] = ()
    candidate_commits: tuple[dict[str, Any], ...] = ()
    events: tuple[IncidentEventShape, ...] = ()
    deliveries: tuple[DeliveryShape, ...] = ()
    explanations: tuple[ExplanationShape, ...] = ()
    next_measurement: str | None = None


class IncidentPage(Page):
    items: tuple[IncidentShape, ...]


class IncidentEventPage(Page):
    items: tuple[IncidentEventShape, ...]


class IncidentQuery(PageQuery):
    """Newest number first."""

    state: IncidentStateName | None = None
    kind: IncidentKindName | None = None
    assignee: PersonName | None = None
    commit: ShaPrefix | None = None


class IncidentPatch(RequestShape):
    """What is left out stays as it is; accepting needs a reason and a day, snoozing a moment, a duplicate a
    number.
    """

    state: IncidentStateName | None = None
    assignee: PersonName | None = None
    due_at: AwareTimestamp | None = None
    snoozed_until: AwareTimestamp | None = None
    reason: OptionalLine = ""
    accepted_until: AwareTimestamp | None = None
    duplicate_of: IncidentNumber | None = None
    issue_url: OptionalLink | None = None
    fix_sha: OptionalSha | None = None
    culprit_sha: OptionalSha | None = None
    note: NoteText | None = None


class IncidentRevision(RequestShape):
    """An incident as somebody saw it."""

    number: IncidentNumber
    revision: IncidentNumber


IncidentRevisions = Annotated[tuple[IncidentRevision, ...], Field(min_length=1, max_length=MAX_BULK_CHANGES)]


class BulkIncidentPatch(RequestShape):
    incidents: IncidentRevisions
    change: IncidentPatch


class RejectedPatch(Shape):
    number: int
    reason: str


class BulkPatchResult(Shape):
    """``stale`` ones were changed by somebody else meanwhile and are as they were left."""

    changed: tuple[int, ...]
    stale: tuple[int, ...]
    rejected: tuple[RejectedPatch, ...]


class NewNote(RequestShape):
    text: NoteText


class MergeRequest(RequestShape):
    others: IncidentRevisions


class SplitRequest(RequestShape):
    series: Annotated[tuple[HexKey, ...], Field(min_length=1, max_length=10_000)]


class SplitResult(Shape):
    remaining: IncidentShape
    new: IncidentShape


class BoundaryMove(RequestShape):
    """Either so many commits along the line, or the two ends of the range."""

    commit_offset: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    last_good: ShaPrefix | None = None
    commit: ShaPrefix | None = None


class BoundaryTestShape(Shape):
    """How far a step stands out of the noise at the old and at the new edge."""

    series: str
    sigmas_before: float | None
    sigmas_after: float | None
    worse: bool


class BoundaryMoveResult(Shape):
    incident: IncidentShape
    tests: tuple[BoundaryTestShape, ...]
    worse_count: int


class NoisyBenchmarkShape(Shape):
    benchmark: str
    judged: int
    invalid: int
    rate: float


class AlertQualityShape(Shape):
    """How well the alarms serve those who get them; absent where nothing was decided yet."""

    open: int
    overdue: int
    paged: int
    judged: int
    invalid: int
    false_rate: float | None = None
    hours_to_triage: float | None = None
    hours_to_close: float | None = None
    series_per_incident: float | None = None
    noisy_benchmarks: tuple[NoisyBenchmarkShape, ...] = ()
