"""Stored incidents as values: the incident, its members, its events, mutes and impacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from perfci.model import ChangePoint, IncidentState, Series
from perfci.store.column_conversions import (
    CHANGE_POINT_COLUMNS,
    build_change_point,
)

DATA_KIND = "data"
"""The kind of incidents about missing data, which no change point opens."""

PAGE = "page"
"""The disposition of an incident that needs a person."""

MONITORED = "monitored"
"""The disposition of an incident whose benchmarks are all muted."""

OPEN_STATES = frozenset({IncidentState.NEW, IncidentState.INVESTIGATING, IncidentState.CULPRIT_FOUND})
"""States that still need a person."""


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """A stored incident; ``detail`` holds the texts and candidate commits of the last evaluation."""

    id: int
    number: int
    derived_id: str
    kind: str
    state: IncidentState
    revision: int
    state_number: int
    last_good: str
    commit: str
    first_seen: datetime
    changed_at: datetime
    headline: str
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
    disposition: str = "note"
    ongoing: bool = True
    measured_at: datetime | None = None
    paged_at: datetime | None = None
    triaged_at: datetime | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    duplicate_number: int | None = None

    @property
    def warrants_paging(self) -> bool:
        """Whether the statistics ask for a person, or data is missing, whatever people did since."""
        return self.kind == DATA_KIND or (self.disposition == PAGE and self.ongoing)

    @property
    def is_open(self) -> bool:
        """Whether a person is still needed for it."""
        return self.warrants_paging and self.state in OPEN_STATES and self.gone_at is None


@dataclass(frozen=True, slots=True)
class IncidentMember:
    """One series of an incident and how it changed."""

    series_id: int
    commit: str
    last_good: str
    relative_change: float
    before: float
    after: float
    interval_lo: float | None = None
    interval_hi: float | None = None
    added_by: str = "perfci"
    dropped_at: datetime | None = None

    @property
    def computed_fields(self) -> tuple[str | float | None, ...]:
        """What the statistics say of it."""
        return tuple(getattr(self, name) for name in CHANGE_POINT_COLUMNS)

    def to_change_point(self, series: Series) -> ChangePoint:
        """Build the change point of this member's series."""
        return build_change_point(self, series)


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """One event of an incident: the actor, the action and its time."""

    at: datetime
    actor: str
    action: str
    before: str = ""
    after: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """What the last evaluation found beside the incidents, each with its text and its command."""

    evaluated_at: datetime
    pages_per_week: int
    retests: tuple[Mapping[str, Any], ...] = ()
    creeps: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ImpactRecord:
    """The change of one series by one commit."""

    change: ChangePoint
    incident: int | None
    state: IncidentState | None
    recorded_at: datetime
    accepted: bool


@dataclass(frozen=True, slots=True)
class Mute:
    """A muted benchmark."""

    benchmark: str
    metric: str
    rate: float
    reason: str
    since: datetime
    expires_at: datetime
    actor: str

    def matches(self, series: Series) -> bool:
        """Whether this series is one of it; without a metric all of the benchmark are."""
        return self.benchmark == series.benchmark.name and self.metric in ("", series.metric.name)
