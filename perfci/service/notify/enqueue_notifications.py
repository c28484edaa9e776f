"""Enqueue notifications: one for each state of an incident and each destination that accepts it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentKind, IncidentState
from perfci.report.incidents import incident_text as words
from perfci.service.notify.notification_send_time import compute_send_time
from perfci.store.incidents.incident_records import DATA_KIND, IncidentRecord
from perfci.store.incidents.incident_store import (
    load_benchmarks_by_incident,
    load_incident_members,
    load_member_change_points,
)
from perfci.store.jobs.notification_destinations import Destination, load_destinations
from perfci.store.jobs.notification_queue import add_delivery
from perfci.store.projects import Project

DEFAULT_KINDS = (IncidentKind.REGRESSION.value, IncidentKind.MIXED.value, DATA_KIND)
DEFAULT_STATES = (IncidentState.NEW.value,)
"""States of which a destination without filters is notified."""

MAX_MEMBERS, MAX_CANDIDATES = 5, 3
"""Limits of one message, sized for a phone screen; the page has the rest."""


def enqueue_paged_incident_notifications(
    tx: Transaction, project: Project, records: Sequence[IncidentRecord], now: datetime
) -> None:
    """Enqueue notifications of incidents that newly page."""
    destinations = load_destinations(tx, project.id)
    for record in records:
        enqueue_notifications(tx, project, record, now, candidates=destinations)


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
    """Enqueue one notification for each destination that accepts an incident in this state, at most once.

    ``candidates`` are the destinations of the project, where the caller has loaded them already.
    """
    destinations = load_destinations(tx, project.id) if candidates is None else candidates
    receivers = [
        destination
        for destination in destinations
        if destination.enabled and _accepts_incident(destination, record)
    ]
    if any(destination.routes.get("benchmarks") for destination in receivers):
        names = {name for name, _ in load_benchmarks_by_incident(tx, [record.id])[record.id]}
        receivers = [destination for destination in receivers if _accepts_benchmarks(destination, names)]
    if not receivers:
        return 0
    body = build_notification_content(tx, project, record) | {
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
    """Return whether the routes of a destination accept the kind and state of an incident."""
    routes = destination.routes
    return record.kind in (routes.get("kinds") or DEFAULT_KINDS) and record.state.value in (
        routes.get("states") or DEFAULT_STATES
    )


def _accepts_benchmarks(destination: Destination, benchmarks: Iterable[str]) -> bool:
    """Return whether the routes of a destination accept one of these benchmarks."""
    patterns = destination.routes.get("benchmarks") or ()
    return not patterns or any(fnmatchcase(name, pattern) for name in benchmarks for pattern in patterns)


def build_notification_content(tx: Transaction, project: Project, record: IncidentRecord) -> dict[str, Any]:
    """Build the content of a notification from the current incident."""
    moved = load_incident_members(tx, record.id)
    candidates = record.detail.get("candidate_commits", ())[:MAX_CANDIDATES]
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
            words.member_change_sentence(change)
            for change in load_member_change_points(tx, moved[:MAX_MEMBERS])
        ],
        "more": max(0, len(moved) - MAX_MEMBERS),
        "candidate_commits": [
            f"{candidate['commit'][:10]} {candidate.get('subject') or ''}".strip() for candidate in candidates
        ],
    }
