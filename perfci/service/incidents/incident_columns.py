"""Incidents of a look as the store keeps them: columns, words, and what changed since the last look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from perfci.model import ChangePoint, IncidentState
from perfci.report.incidents import incident_text as words
from perfci.report.incidents.incident_serializers import about_fields, creep_fields, retest_fields
from perfci.service.incidents.derive_incidents import Situation
from perfci.store.incidents.records import MONITORED, PAGE, Event, IncidentRecord, Look
from perfci.verdicts.incidents.page_budget import Told
from perfci.verdicts.incidents.step_causes import cost_of

PERFCI = "perfci"
"""The name under which the program itself changes an incident."""


def described(told: Told, found: Situation, *, monitored: bool = False) -> dict[str, Any]:
    """What a row says of an incident of the look, words included; its members are kept beside it.

    ``monitored`` ones would ask for a person, were their benchmarks not in quarantine.
    """
    incident = told.incident
    detail = about_fields(told, found.commits, found.pages_per_week)
    detail["largest"] = words.largest(incident) if incident.members else ""
    detail |= {"announced": said} if (said := words.announced(told)) else {}
    silent = monitored and told.say.value == PAGE
    detail |= {"told": "monitored only: its benchmarks are in quarantine", "open": False} if silent else {}
    return {
        "derived_id": incident.id,
        "kind": incident.kind.value,
        "last_good": incident.last_good,
        "commit": incident.commit,
        "headline": words.headline(incident, found.commits),
        "cost": max((cost_of(change) for change in incident.members), default=None),
        "series_count": len({change.series for change in incident.members}),
        "say": MONITORED if silent else told.say.value,
        "standing": incident.standing,
        "measured_at": incident.measured_at,
        "detail": detail,
    }


def as_record(told: Told, found: Situation, now: datetime) -> IncidentRecord:
    """An incident of the look as it would be stored, where nothing is."""
    columns = described(told, found)
    state = IncidentState.ACCEPTED if told.announced else IncidentState.NEW
    return IncidentRecord(
        id=0, number=0, state=state, revision=1, state_number=1, first_seen=now, changed_at=now, **columns
    )


def as_pinned(told: Told, record: IncidentRecord, members: Sequence[ChangePoint]) -> Told:
    """The same with the edge and the members that a person gave it."""
    ordered = tuple(sorted(members, key=lambda change: -abs(cost_of(change))))
    return replace(
        told,
        incident=replace(told.incident, members=ordered, last_good=record.last_good, commit=record.commit),
    )


def events_of(record: IncidentRecord, different: Mapping[str, Any], now: datetime) -> list[Event]:
    """What a reader of the history wants to know of; other words for the same are no event."""
    found = []
    if "kind" in different:
        found.append(Event(now, PERFCI, "sync", record.kind, different["kind"], different.get("headline", "")))
    if "commit" in different or "last_good" in different:
        before, after = (
            f"{good[:10]}..{bad[:10]}"
            for good, bad in (
                (record.last_good, record.commit),
                (different.get("last_good", record.last_good), different.get("commit", record.commit)),
            )
        )
        found.append(Event(now, PERFCI, "sync", before, after, "more points show the range better"))
    if "gone_at" in different:
        found.append(Event(now, PERFCI, "sync", "gone", "seen", "seen again"))
    return found


def look_of(found: Situation, now: datetime) -> Look:
    retests = tuple(retest_fields(one) | {"sentence": words.retest_sentence(one)} for one in found.retests)
    return Look(now, found.pages_per_week, retests, tuple(creep_fields(one) for one in found.creeps))
