"""Incidents as they travel: what is known of them, and what people ask of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from perfci.net.shapes import VISIBLE, Asked, Key, Moment, Page, Paged, Shape

StateWord = Literal[
    "new", "investigating", "culprit_found", "fixed", "accepted", "reverted", "environment", "invalid", "duplicate",
    "snoozed",
]  # fmt: skip
KindWord = Literal["regression", "improvement", "mixed", "environment", "machine", "resolved", "data"]

Number = Annotated[int, Field(ge=1, le=2**31 - 1)]
Line = Annotated[str, Field(max_length=500, pattern=rf"{VISIBLE[:-2]}*$")]
"""One line, which may be empty."""
Person = Annotated[str, Field(max_length=100, pattern=rf"{VISIBLE[:-2]}*$")]
Text = Annotated[str, Field(min_length=1, max_length=4000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]+$")]
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
ShaOrNone = Annotated[str, Field(pattern=r"^([0-9a-f]{7,64})?$")]
Address = Annotated[str, Field(max_length=500, pattern=r"^(https?://[^\s<>\x22\x27\x00-\x1f]+)?$")]
"""A link, or nothing: what a page makes a link of must not be a script."""

MOST_AT_ONCE = 500


class IncidentShape(Shape):
    """An incident as a list shows it. ``revision`` goes into ``If-Match`` of a change."""

    number: int
    id: str
    kind: str
    state: StateWord
    revision: int
    headline: str
    explanation: str = ""
    told: str = ""
    say: str
    open: bool
    standing: bool
    last_good: str
    commit: str
    series_count: int
    cost: float | None = None
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


class MemberShape(Shape):
    """``identity`` names the series everywhere in the API; ``rel`` is after/before - 1."""

    identity: Key
    series: dict[str, Any]
    sentence: str
    last_good: str
    commit: str
    rel: float
    before: float
    after: float
    added_by: str


class EventShape(Shape):
    at: datetime
    actor: str
    what: str
    before: str
    after: str
    text: str


class DeliveryShape(Shape):
    uid: str
    destination: str
    incident: int
    state: str
    about: str
    attempts: int
    not_before: datetime
    sent_at: datetime | None = None
    problem: str = ""


class WholeIncident(IncidentShape):
    """One incident with its series, its history and who was told."""

    members: tuple[MemberShape, ...] = ()
    suspects: tuple[dict[str, Any], ...] = ()
    events: tuple[EventShape, ...] = ()
    deliveries: tuple[DeliveryShape, ...] = ()
    measure: str | None = None


class IncidentPage(Page):
    items: tuple[IncidentShape, ...]


class EventPage(Page):
    items: tuple[EventShape, ...]


class IncidentFilter(Paged):
    """Newest number first."""

    state: StateWord | None = None
    kind: KindWord | None = None
    assignee: Person | None = None
    commit: Sha | None = None


class IncidentChange(Asked):
    """What is left out stays as it is; accepting needs a reason and a day, snoozing a moment, a duplicate a number."""

    state: StateWord | None = None
    assignee: Person | None = None
    due_at: Moment | None = None
    snoozed_until: Moment | None = None
    reason: Line = ""
    accepted_until: Moment | None = None
    duplicate_of: Number | None = None
    issue_url: Address | None = None
    fix_sha: ShaOrNone | None = None
    culprit_sha: ShaOrNone | None = None
    note: Text | None = None


class SeenIncident(Asked):
    """An incident as somebody saw it."""

    number: Number
    revision: Number


SeenIncidents = Annotated[tuple[SeenIncident, ...], Field(min_length=1, max_length=MOST_AT_ONCE)]


class BulkChange(Asked):
    incidents: SeenIncidents
    change: IncidentChange


class RefusedChange(Shape):
    number: int
    why: str


class BulkAnswer(Shape):
    """``stale`` ones were changed by somebody else meanwhile and are as they were left."""

    changed: tuple[int, ...]
    stale: tuple[int, ...]
    refused: tuple[RefusedChange, ...]


class NewNote(Asked):
    text: Text


class Merge(Asked):
    others: SeenIncidents


class Split(Asked):
    series: Annotated[tuple[Key, ...], Field(min_length=1, max_length=10_000)]


class SplitAnswer(Shape):
    left: IncidentShape
    new: IncidentShape


class Nudge(Asked):
    """Either so many commits along the line, or the two ends of the range."""

    by: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    last_good: Sha | None = None
    commit: Sha | None = None


class EdgeTest(Shape):
    """How far a step stands out of the noise at the old and at the new edge."""

    series: str
    sigmas_before: float | None
    sigmas_now: float | None
    worse: bool


class NudgeAnswer(Shape):
    incident: IncidentShape
    tests: tuple[EdgeTest, ...]
    worse: int


class LedgerFilter(Paged):
    """``moved`` asks for what got worse alone, or better alone."""

    commit: Sha | None = None
    moved: Literal["worse", "better"] | None = None


class LedgerShape(Shape):
    """This commit moved this series by so much; ``incident`` tells under which number people spoke of it."""

    commit: str
    series: dict[str, Any]
    sentence: str
    rel: float
    before: float
    after: float
    incident: int | None = None
    state: StateWord | None = None
    accepted: bool
    recorded_at: datetime


class LedgerPage(Page):
    items: tuple[LedgerShape, ...]


class NoisyShape(Shape):
    benchmark: str
    judged: int
    invalid: int
    rate: float


class HealthShape(Shape):
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
    noisy: tuple[NoisyShape, ...] = ()


class SuspensionShape(Shape):
    """A benchmark that is watched and told to nobody; an empty ``metric`` means all of its metrics."""

    benchmark: str
    metric: str
    rate: float
    reason: str
    since: datetime
    expires_at: datetime
    actor: str


class SuspensionPage(Page):
    items: tuple[SuspensionShape, ...]


BenchmarkName = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE)]


class NewSuspension(Asked):
    """``days`` of 0 let the benchmark out again."""

    benchmark: BenchmarkName
    metric: Annotated[str, Field(max_length=500, pattern=rf"{VISIBLE[:-2]}*$")] = ""
    reason: Line = ""
    days: Annotated[int, Field(ge=0, le=365)] = 30
