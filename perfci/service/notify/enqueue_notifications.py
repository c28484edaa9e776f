"""Who is told of an incident: one message for each of its states and each destination that wants it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentKind, IncidentState
from perfci.report.incidents import incident_text as words
from perfci.service.notify.quiet_hours import compute_send_time
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import (
    load_member_benchmarks,
    load_member_change_points,
    load_members,
)
from perfci.store.incidents.records import DATA_KIND, IncidentRecord
from perfci.store.jobs.delivery_queue import Destination, add_delivery, load_destinations
from perfci.store.projects import Project

DEFAULT_KINDS = (IncidentKind.REGRESSION.value, IncidentKind.MIXED.value, DATA_KIND)
DEFAULT_STATES = (IncidentState.NEW.value,)
"""What a destination hears of that names nothing else: what begins to ask for a person."""

MAX_NEWS_AGE = timedelta(days=7)
"""What moved longer before the first look at an imported history is no news to anybody."""

MAX_MEMBERS, MAX_SUSPECTS = 5, 3
"""A message is read on a telephone; the page has the rest."""


def enqueue_new_incidents(
    tx: Transaction, project: Project, now: datetime, *, first_evaluation: bool = False
) -> list[int]:
    """Put on their way the messages about what has come to ask for a person; answers the numbers."""
    numbers = []
    destinations = load_destinations(tx, project.id)
    for record in stored.load_unpaged(tx, project.id):
        stored.update_derived(tx, record.id, {"paged_at": now})
        if not (first_evaluation and record.measured_at and record.measured_at < now - MAX_NEWS_AGE):
            enqueue_notifications(tx, project, record, now, candidates=destinations)
        numbers.append(record.number)
    return numbers


def enqueue_notifications(
    tx: Transaction,
    project: Project,
    record: IncidentRecord,
    now: datetime,
    *,
    actor: str = "",
    reason: str = "",
    candidates: Sequence[Destination] | None = None,
) -> int:
    """One message to each destination that wants to hear of an incident in this state; never a second one.

    ``among`` are the destinations of the project, where the caller knows them already.
    """
    destinations = load_destinations(tx, project.id) if candidates is None else candidates
    receivers = [
        destination
        for destination in destinations
        if destination.enabled and _accepts_incident(destination, record)
    ]
    if any(destination.routes.get("benchmarks") for destination in receivers):
        names = {name for name, _ in load_member_benchmarks(tx, [record.id])[record.id]}
        receivers = [destination for destination in receivers if _accepts_benchmarks(destination, names)]
    if not receivers:
        return 0
    body = build_notification_body(tx, project, record) | {
        "at": now.isoformat(timespec="seconds"),
        "actor": actor,
        "reason": reason,
    }
    added = 0
    for destination in receivers:
        when = compute_send_time(
            now, destination.quiet, destination.digest, urgent=bool(destination.routes.get("urgent"))
        )
        added += add_delivery(tx, destination.id, record.id, record.state_number, when, body)
    return added


def _accepts_incident(destination: Destination, record: IncidentRecord) -> bool:
    """Whether a destination wants to hear of this kind of incident in this state."""
    routes = destination.routes
    return record.kind in (routes.get("kinds") or DEFAULT_KINDS) and record.state.value in (
        routes.get("states") or DEFAULT_STATES
    )


def _accepts_benchmarks(destination: Destination, benchmarks: Iterable[str]) -> bool:
    """Whether a destination wants to hear of one of these benchmarks."""
    patterns = destination.routes.get("benchmarks") or ()
    return not patterns or any(fnmatchcase(name, pattern) for name in benchmarks for pattern in patterns)


def build_notification_body(tx: Transaction, project: Project, record: IncidentRecord) -> dict[str, Any]:
    """An incident as it is now, in the words of every other surface."""
    moved = load_members(tx, record.id)
    candidates = record.detail.get("candidate_commits", ())[:MAX_SUSPECTS]
    return {
        "project": project.slug,
        "number": record.number,
        "state": record.state.value,
        "kind": record.kind,
        "headline": record.headline,
        "explanation": record.detail.get("explanation", ""),
        "last_good": record.last_good,
        "commit": record.commit,
        "members": [
            words.member_sentence(change) for change in load_member_change_points(tx, moved[:MAX_MEMBERS])
        ],
        "more": max(0, len(moved) - MAX_MEMBERS),
        "candidate_commits": [
            f"{candidate['commit'][:10]} {candidate.get('subject') or ''}".strip() for candidate in candidates
        ],
    }
