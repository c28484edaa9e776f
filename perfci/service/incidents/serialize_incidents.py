"""Stored incidents as plain JSON values, the same for the command line, the pages and the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import ChangePoint, Series
from perfci.report.incidents import incident_text as words
from perfci.report.serializers import series_fields
from perfci.service.incidents.triage import incident_of
from perfci.store.conversions import series_identity
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import members
from perfci.store.incidents.records import Event, IncidentRecord, LedgerLine, Look, Member
from perfci.store.jobs.delivery_queue import Delivery, deliveries
from perfci.store.projects import Project
from perfci.store.queries.loaders import series_by_ids

PLAIN = (
    "number", "kind", "revision", "last_good", "commit", "headline", "series_count", "cost", "assignee", "reason",
    "issue_url", "fix_sha", "culprit_sha", "pinned", "say", "standing", "open",
)  # fmt: skip
MOMENTS = (
    "first_seen", "changed_at", "due_at", "snoozed_until", "accepted_until", "verified_at", "gone_at", "measured_at",
    "paged_at", "triaged_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Whole:
    """All that is known of one incident."""

    record: IncidentRecord
    members: Sequence[tuple[Member, Series]]
    events: Sequence[Event]
    deliveries: Sequence[Delivery]


def whole(tx: Transaction, project: Project, number: int) -> Whole:
    record = incident_of(tx, project, number)
    moved = members(tx, record.id)
    series = series_by_ids(tx, {member.series_id for member in moved})
    named = [(member, series[member.series_id]) for member in moved]
    return Whole(record, named, stored.events(tx, record.id), deliveries(tx, project.id, incident_id=record.id))


def incident_fields(record: IncidentRecord) -> dict[str, Any]:
    """What a list says of an incident; what the last look found goes below what people decided."""
    return (
        dict(record.detail)
        | {"id": record.derived_id, "sentence": record.headline, "state": record.state.value}
        | {name: getattr(record, name) for name in PLAIN}
        | {name: _moment(getattr(record, name)) for name in MOMENTS}
        | {"duplicate_of": record.duplicate_number}
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """The incidents of a project under their headings, and what the last look found beside them."""

    project: str
    sections: Mapping[str, Sequence[IncidentRecord]]
    counts: Mapping[str, int]
    look: Look

    @property
    def every(self) -> list[IncidentRecord]:
        return [one for records in self.sections.values() for one in records]

    @property
    def sentence(self) -> str:
        return words.summary_of(self.counts, len(self.look.retests), len(self.look.creeps))


def listing(tx: Transaction, project: Project) -> Listing | None:
    """All incidents; nothing where no look was ever kept."""
    look = stored.last_look(tx, project.id)
    if look is None:
        return None
    sections = {name: stored.in_section(tx, project.id, name) for name in stored.SECTIONS}
    return Listing(project.slug, sections, {name: len(found) for name, found in sections.items()}, look)


def listing_fields(found: Listing) -> dict[str, Any]:
    return {
        "project": found.project,
        "sentence": found.sentence,
        "pages_per_week": found.look.pages_per_week,
        "looked_at": _moment(found.look.looked_at),
        "incidents": [incident_fields(one) for one in sorted(found.every, key=lambda one: -one.number)],
        "retests": list(found.look.retests),
        "creeps": list(found.look.creeps),
    }


def whole_fields(project: Project, found: Whole) -> dict[str, Any]:
    return incident_fields(found.record) | {
        "members": [member_fields(project.slug, member, series) for member, series in found.members],
        "events": [event_fields(event) for event in found.events],
        "deliveries": [delivery_fields(one) for one in found.deliveries],
    }


def member_fields(project: str, member: Member, series: Series) -> dict[str, Any]:
    return {
        "identity": series_identity(project, series),
        "series": series_fields(series),
        "sentence": words.member(member.change(series)),
        "last_good": member.last_good,
        "commit": member.commit,
        "rel": member.rel,
        "before": member.before,
        "after": member.after,
        "added_by": member.added_by,
    }


def event_fields(event: Event) -> dict[str, Any]:
    return {
        "at": _moment(event.at),
        "actor": event.actor,
        "what": event.what,
        "before": event.before,
        "after": event.after,
        "text": event.text,
    }


def ledger_fields(line: LedgerLine) -> dict[str, Any]:
    """What a commit did to a series, and under which number people spoke of it."""
    change = ChangePoint(line.series, line.commit, "", line.rel, line.before, line.after)
    same = ("commit", "rel", "before", "after", "incident", "accepted")
    return {name: getattr(line, name) for name in same} | {
        "series": series_fields(line.series),
        "sentence": words.member(change),
        "state": line.state.value if line.state else None,
        "recorded_at": _moment(line.recorded_at),
    }


def delivery_fields(one: Delivery) -> dict[str, Any]:
    return {
        "uid": one.uid,
        "destination": one.destination.name,
        "incident": one.number,
        "state": one.state,
        "about": one.body.get("state", ""),
        "attempts": one.attempts,
        "not_before": _moment(one.not_before),
        "sent_at": _moment(one.sent_at),
        "problem": one.problem,
    }


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None
