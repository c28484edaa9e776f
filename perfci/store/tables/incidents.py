"""Tables of incidents, mutes, expected changes, and reporting schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint, false, true
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import TableBase, foreign_key, primary_key


class IncidentRow(TableBase):
    """An incident; ``number`` is its permanent name, ``derived_id`` what the statistics compute today.

    ``revision`` counts every change, so that concurrent edits are detected; ``state_number`` counts the
    states that are notified. ``pinned`` means that a person set the boundary or the members.
    ``disposition`` and ``ongoing`` are results of the last evaluation, ``detail`` its texts and candidate
    commits; ``paged_at`` is when the incident first paged, ``triaged_at`` when a person first answered.
    """

    __tablename__ = "incidents"
    __table_args__ = (
        UniqueConstraint("project_id", "number"),
        Index("ix_incidents_state", "project_id", "state", "id"),
        Index("ix_incidents_derived", "project_id", "derived_id"),
        Index("ix_incidents_commit", "project_id", "commit"),
    )

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    number: Mapped[int]
    derived_id: Mapped[str]
    kind: Mapped[str]
    state: Mapped[str]
    revision: Mapped[int] = mapped_column(server_default="1")
    state_number: Mapped[int] = mapped_column(server_default="1")
    last_good: Mapped[str]
    commit: Mapped[str]
    first_seen: Mapped[datetime]
    changed_at: Mapped[datetime]
    assignee: Mapped[str] = mapped_column(server_default="")
    due_at: Mapped[datetime | None]
    snoozed_until: Mapped[datetime | None]
    reason: Mapped[str] = mapped_column(server_default="")
    accepted_until: Mapped[datetime | None]
    duplicate_of: Mapped[int | None] = foreign_key("incidents.id", index=True, nullable=True)
    issue_url: Mapped[str] = mapped_column(server_default="")
    fix_sha: Mapped[str] = mapped_column(server_default="")
    culprit_sha: Mapped[str] = mapped_column(server_default="")
    verified_at: Mapped[datetime | None]
    gone_at: Mapped[datetime | None]
    pinned: Mapped[bool] = mapped_column(server_default=false())
    headline: Mapped[str]
    severity: Mapped[float | None]
    series_count: Mapped[int]
    disposition: Mapped[str] = mapped_column(server_default="note")
    ongoing: Mapped[bool] = mapped_column(server_default=true())
    measured_at: Mapped[datetime | None]
    paged_at: Mapped[datetime | None]
    triaged_at: Mapped[datetime | None]
    detail: Mapped[Any] = mapped_column(JsonText, server_default="{}")


class EvaluationRow(TableBase):
    """What the last evaluation of a project found beside its incidents: retests and slow drifts."""

    __tablename__ = "evaluations"
    __table_args__ = (UniqueConstraint("project_id"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    evaluated_at: Mapped[datetime]
    pages_per_week: Mapped[int]
    retests: Mapped[Any] = mapped_column(JsonText)
    creeps: Mapped[Any] = mapped_column(JsonText)


class IncidentMemberRow(TableBase):
    """A member series of an incident and how it changed."""

    __tablename__ = "incident_members"
    __table_args__ = (UniqueConstraint("incident_id", "series_id"),)

    id: Mapped[int] = primary_key()
    incident_id: Mapped[int] = foreign_key("incidents.id")
    series_id: Mapped[int] = foreign_key("series.id", index=True)
    commit: Mapped[str]
    last_good: Mapped[str]
    relative_change: Mapped[float]
    before: Mapped[float]
    after: Mapped[float]
    interval_lo: Mapped[float | None]
    interval_hi: Mapped[float | None]
    added_by: Mapped[str]
    dropped_at: Mapped[datetime | None]


class IncidentEventRow(TableBase):
    """One event of an incident."""

    __tablename__ = "incident_events"

    id: Mapped[int] = primary_key()
    incident_id: Mapped[int] = foreign_key("incidents.id", index=True)
    at: Mapped[datetime]
    actor: Mapped[str]
    action: Mapped[str]
    before: Mapped[str]
    after: Mapped[str]
    text: Mapped[str]


class ImpactRow(TableBase):
    """The change of one series by one commit; a later recovery does not remove the row."""

    __tablename__ = "impacts"
    __table_args__ = (
        UniqueConstraint("series_id", "commit"),
        Index("ix_impacts_commit", "project_id", "commit"),
        Index("ix_impacts_incident_id", "incident_id"),
    )

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    commit: Mapped[str]
    series_id: Mapped[int] = foreign_key("series.id")
    relative_change: Mapped[float]
    before: Mapped[float]
    after: Mapped[float]
    interval_lo: Mapped[float | None]
    interval_hi: Mapped[float | None]
    incident_id: Mapped[int | None] = foreign_key("incidents.id", nullable=True)
    recorded_at: Mapped[datetime]
    accepted: Mapped[bool] = mapped_column(server_default=false())


class ExpectedChangeRow(TableBase):
    """An expected change of a commit of the main branch; declared several times, it is one row."""

    __tablename__ = "expected_changes"
    __table_args__ = (UniqueConstraint("project_id", "sha", "match", "change"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    sha: Mapped[str]
    match: Mapped[str]
    change: Mapped[float]
    reason: Mapped[str]
    source: Mapped[str]
    merged_at: Mapped[datetime | None]
    recorded_by: Mapped[str]
    recorded_at: Mapped[datetime]


class MutedBenchmarkRow(TableBase):
    """A muted benchmark: judged without notifications until the mute expires or ends."""

    __tablename__ = "muted_benchmarks"
    __table_args__ = (Index("ix_muted_benchmarks_name", "project_id", "benchmark"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    benchmark: Mapped[str]
    metric: Mapped[str] = mapped_column(server_default="")
    rate: Mapped[float]
    reason: Mapped[str]
    since: Mapped[datetime]
    expires_at: Mapped[datetime]
    unmuted_at: Mapped[datetime | None]
    actor: Mapped[str]


class ReportingScheduleRow(TableBase):
    """How often a suite reports from a machine; ``every_s`` is NULL until learned."""

    __tablename__ = "reporting_schedules"
    __table_args__ = (UniqueConstraint("project_id", "suite", "machine_id", "branch"),)

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id")
    suite: Mapped[str]
    machine_id: Mapped[int] = foreign_key("machines.id")
    branch: Mapped[str] = mapped_column(server_default="")
    every_s: Mapped[float | None]
    set_by: Mapped[str] = mapped_column(server_default="learned")
    series: Mapped[int]
    last_run_at: Mapped[datetime | None]
    muted: Mapped[bool] = mapped_column(server_default=false())
