"""Who is told of an incident: one message for each of its states and each destination that wants it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentKind, IncidentState
from perfci.report.incidents import incident_text as words
from perfci.service.notify.quiet_hours import send_at
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import benchmarks_of, changes, members
from perfci.store.incidents.records import DATA, IncidentRecord
from perfci.store.jobs.delivery_queue import Destination, add_delivery, destinations
from perfci.store.projects import Project

KINDS = (IncidentKind.REGRESSION.value, IncidentKind.MIXED.value, DATA)
STATES = (IncidentState.NEW.value,)
"""What a destination hears of that names nothing else: what begins to ask for a person."""

NEWS = timedelta(days=7)
"""What moved longer before the first look at an imported history is no news to anybody."""

MOST_MEMBERS, MOST_SUSPECTS = 5, 3
"""A message is read on a telephone; the page has the rest."""


def tell_new(tx: Transaction, project: Project, now: datetime, *, since_ever: bool = False) -> list[int]:
    """Put on their way the messages about what has come to ask for a person; answers the numbers."""
    told = []
    known = destinations(tx, project.id)
    for record in stored.unpaged(tx, project.id):
        stored.refresh(tx, record.id, {"paged_at": now})
        if not (since_ever and record.measured_at and record.measured_at < now - NEWS):
            tell(tx, project, record, now, among=known)
        told.append(record.number)
    return told


def tell(
    tx: Transaction,
    project: Project,
    record: IncidentRecord,
    now: datetime,
    *,
    actor: str = "",
    reason: str = "",
    among: Sequence[Destination] | None = None,
) -> int:
    """One message to each destination that wants to hear of an incident in this state; never a second one.

    ``among`` are the destinations of the project, where the caller knows them already.
    """
    known = destinations(tx, project.id) if among is None else among
    wanting = [one for one in known if one.enabled and _routed(one, record)]
    if any(one.routes.get("benchmarks") for one in wanting):
        names = {name for name, _ in benchmarks_of(tx, [record.id])[record.id]}
        wanting = [one for one in wanting if _named(one, names)]
    if not wanting:
        return 0
    body = notice(tx, project, record) | {"at": now.isoformat(timespec="seconds"), "actor": actor, "reason": reason}
    added = 0
    for one in wanting:
        when = send_at(now, one.quiet, one.digest, urgent=bool(one.routes.get("urgent")))
        added += add_delivery(tx, one.id, record.id, record.state_number, when, body)
    return added


def _routed(destination: Destination, record: IncidentRecord) -> bool:
    """Whether a destination wants to hear of this kind of incident in this state."""
    routes = destination.routes
    return record.kind in (routes.get("kinds") or KINDS) and record.state.value in (routes.get("states") or STATES)


def _named(destination: Destination, benchmarks: Iterable[str]) -> bool:
    """Whether a destination wants to hear of one of these benchmarks."""
    patterns = destination.routes.get("benchmarks") or ()
    return not patterns or any(fnmatchcase(name, one) for name in benchmarks for one in patterns)


def notice(tx: Transaction, project: Project, record: IncidentRecord) -> dict[str, Any]:
    """An incident as it is now, in the words of every other surface."""
    moved = members(tx, record.id)
    suspects = record.detail.get("suspects", ())[:MOST_SUSPECTS]
    return {
        "project": project.slug,
        "number": record.number,
        "state": record.state.value,
        "kind": record.kind,
        "headline": record.headline,
        "explanation": record.detail.get("explanation", ""),
        "last_good": record.last_good,
        "commit": record.commit,
        "members": [words.member(change) for change in changes(tx, moved[:MOST_MEMBERS])],
        "more": max(0, len(moved) - MOST_MEMBERS),
        "suspects": [f"{one['commit'][:10]} {one.get('subject') or ''}".strip() for one in suspects],
    }
