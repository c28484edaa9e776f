"""Incidents about missing data: open and close them, with notifications like a regression."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.notify.enqueue_notifications import enqueue_new_incidents
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import add_members
from perfci.store.incidents.records import DATA_KIND, PAGE, IncidentEvent, IncidentMember, IncidentRecord
from perfci.store.projects import Project, mark_changed

DATA_RETURNED = "data came again"


def open_data_incident(
    tx: Transaction,
    project: Project,
    key: str,
    headline: str,
    now: datetime,
    *,
    explanation: str = "",
    series_ids: Collection[int] = (),
) -> IncidentRecord:
    """Open an incident about missing data; ``key`` identifies it, such as ``late nightly on <machine>``.

    Repeated calls keep one open incident per key and notify once. Data that returned and is missing again
    opens a new incident.
    """
    existing = stored.find_data_incident(tx, project.id, key)
    if existing is not None and existing.gone_at is None:
        if (existing.headline, existing.detail.get("explanation", "")) != (headline, explanation):
            stored.update_derived(
                tx, existing.id, {"headline": headline, "detail": {"explanation": explanation}}
            )
        return existing
    columns = {
        "derived_id": key,
        "kind": DATA_KIND,
        "state": IncidentState.NEW.value,
        "last_good": "",
        "commit": "",
        "first_seen": now,
        "changed_at": now,
        "measured_at": now,
        "headline": headline,
        "series_count": len(set(series_ids)),
        "disposition": PAGE,
        "detail": {"explanation": explanation},
    }
    record = stored.add_incident(tx, project.id, columns)
    add_members(
        tx,
        record.id,
        [IncidentMember(series_id, "", "", 0.0, 0.0, 0.0) for series_id in sorted(set(series_ids))],
    )
    stored.add_events(
        tx, [(record.id, IncidentEvent(now, SYSTEM_ACTOR, "state", "", record.state, headline))]
    )
    enqueue_new_incidents(tx, project, now)
    mark_changed(tx, [project.id])
    return record


def close_data_incident(tx: Transaction, project: Project, key: str, now: datetime) -> IncidentRecord | None:
    """Close the incident of a key after its data returned; return it, if one was open."""
    existing = stored.find_data_incident(tx, project.id, key)
    if existing is None or existing.gone_at is not None:
        return None
    stored.update_derived(tx, existing.id, {"gone_at": now})
    columns = {
        "state": IncidentState.FIXED.value,
        "reason": DATA_RETURNED,
        "verified_at": now,
        "changed_at": now,
    }
    open_still = existing.state in (
        IncidentState.NEW,
        IncidentState.INVESTIGATING,
        IncidentState.CULPRIT_FOUND,
    )
    if open_still and stored.update_incident(tx, existing.id, existing.revision, columns):
        event = IncidentEvent(now, SYSTEM_ACTOR, "state", existing.state, IncidentState.FIXED, DATA_RETURNED)
    else:
        event = IncidentEvent(now, SYSTEM_ACTOR, "verified", "missing", "there", DATA_RETURNED)
    stored.add_events(tx, [(existing.id, event)])
    mark_changed(tx, [project.id])
    return stored.find_incident(tx, project.id, existing.number)


def open_data_incidents(tx: Transaction, project: Project) -> list[IncidentRecord]:
    """Load the open incidents about missing data; ``derived_id`` is their key."""
    return stored.load_missing_data_incidents(tx, project.id)
