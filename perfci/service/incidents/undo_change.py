"""Undo the last change of state of an incident, as one more event of its history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import SYSTEM_ACTOR, AuditContext
from perfci.service.incidents.state_changes import UNDO_EVENT, IncidentUpdate, get_state_fields
from perfci.service.incidents.triage import StaleRevision, require_incident, update_incident
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.records import IncidentEvent, IncidentRecord
from perfci.store.projects import Project


def undo_last_change(
    tx: Transaction, project: Project, number: int, revision: int, context: AuditContext
) -> IncidentRecord:
    """Restore the state before the last change by a person; assignee, links and notes stay."""
    record = require_incident(tx, project, number)
    if record.revision != revision:
        raise StaleRevision(record)
    history = stored.load_events(tx, record.id)
    if why := find_undo_refusal(record, history):
        raise PerfciError(why)
    return update_incident(tx, project, number, revision, _build_reverse_update(record, history), context)


def find_undo_refusal(record: IncidentRecord, history: Sequence[IncidentEvent]) -> str:
    """Return why nothing can be undone; empty if something can."""
    name = f"incident {record.number}"
    last = _find_last_state_change(history)
    if last is not None and last.after != record.state:
        return f"{name.capitalize()} was merged with another one since: split takes its series out again."
    if last is None or not last.before:
        return f"Nobody changed the state of {name} so far."
    if last.action == UNDO_EVENT:
        return f"The last change of state of {name} was undone already: set the state you want."
    if last.actor == SYSTEM_ACTOR:
        return f"{name.capitalize()} was last changed by perfci itself ({last.text}): set the state you want."
    return ""


def find_undoable_change(record: IncidentRecord, history: Sequence[IncidentEvent]) -> IncidentEvent | None:
    """Return the change of state that can be undone, if any."""
    return None if find_undo_refusal(record, history) else _find_last_state_change(history)


def _build_reverse_update(record: IncidentRecord, history: Sequence[IncidentEvent]) -> IncidentUpdate:
    """Build the update that restores the previous state with its fields."""
    last = _find_last_state_change(history)
    assert last is not None
    with_it = {
        name: str(value)
        for name, value in get_state_fields(record).items()
        if value and last.before == last.after
    }
    with_it |= {
        event.text: event.before for event in history if event.action == "until" and event.at == last.at
    }
    # The text of the first event is the headline, not a reason.
    earlier = [event for event in history if _is_state_change(event) and event is not last]
    duplicate = with_it.get("duplicate_of", "")
    return IncidentUpdate(
        state=IncidentState(last.before),
        reason=earlier[-1].text if earlier and earlier[-1].before else "",
        accepted_until=_parse_time(with_it.get("accepted_until", "")),
        snoozed_until=_parse_time(with_it.get("snoozed_until", "")),
        duplicate_of=int(duplicate) if duplicate else None,
        is_undo=True,
    )


def _find_last_state_change(history: Sequence[IncidentEvent]) -> IncidentEvent | None:
    return next((event for event in reversed(history) if _is_state_change(event)), None)


def _is_state_change(event: IncidentEvent) -> bool:
    return event.action in ("state", UNDO_EVENT)


def _parse_time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
