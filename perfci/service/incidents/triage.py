"""Change the state of incidents, or undo that, on request of people and at the revision they saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import SYSTEM_ACTOR, AuditContext
from perfci.service.incidents.incident_update_rules import (
    KEEP,
    UNDO_EVENT,
    IncidentUpdate,
    build_update_columns,
    build_update_events,
    get_state_fields,
)
from perfci.service.notify.enqueue_notifications import enqueue_notifications
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_records import IncidentEvent, IncidentRecord
from perfci.store.incidents.incident_store import set_impacts_accepted
from perfci.store.jobs.notification_destinations import load_destinations
from perfci.store.projects import Project, mark_projects_changed


class StaleRevision(PerfciError):
    """The incident was changed since the given revision."""

    def __init__(self, record: IncidentRecord) -> None:
        super().__init__(
            f"Incident {record.number} was changed meanwhile and is {record.state.replace('_', ' ')} now "
            f"(revision {record.revision}): reload it."
        )
        self.record = record


MAX_LISTED = 500
"""Incidents that one audit entry lists."""


@dataclass(frozen=True, slots=True)
class BulkResult:
    """Result of a bulk change: changed and stale incidents, and refused ones with the reason."""

    changed: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)


def require_incident(tx: Transaction, project: Project, number: int) -> IncidentRecord:
    """Load an incident by number, or raise an error."""
    record = stored.find_incident(tx, project.id, number)
    if record is None:
        raise PerfciError(f"{project.slug} has no incident {number}: perfci incidents list shows them.")
    return record


def update_incident(
    tx: Transaction,
    project: Project,
    number: int,
    revision: int,
    update: IncidentUpdate,
    context: AuditContext,
) -> IncidentRecord:
    """Change one incident at the given revision."""
    record = require_incident(tx, project, number)
    if record.revision != revision:
        raise StaleRevision(record)
    columns = build_update_columns(record, update, context.at, _load_original(tx, project, update))
    if columns and not stored.update_incident(tx, record.id, revision, columns):
        raise StaleRevision(require_incident(tx, project, number))
    _record_update(tx, project, [record], update, context)
    return require_incident(tx, project, number)


def update_incidents(
    tx: Transaction,
    project: Project,
    revisions: Mapping[int, int],
    update: IncidentUpdate,
    context: AuditContext,
) -> BulkResult:
    """Apply one change to many incidents (number to revision) in a few statements."""
    current = stored.find_incidents_by_number(tx, project.id, revisions)
    refused = dict.fromkeys(revisions.keys() - current.keys(), "there is no such incident")
    original = _load_original(tx, project, update)
    stale = {record.number for record in current.values() if record.revision != revisions[record.number]}
    groups: dict[str, tuple[dict[str, Any], list[IncidentRecord]]] = {}
    for record in current.values():
        if record.number in stale:
            continue
        try:
            columns = build_update_columns(record, update, context.at, original)
        except PerfciError as error:
            refused[record.number] = str(error)
            continue
        # Incidents that get the same columns are written by one statement.
        groups.setdefault(repr(sorted(columns.items(), key=str)), (columns, []))[1].append(record)
    changed: list[IncidentRecord] = []
    for columns, records in groups.values():
        read_revisions = {record.id: record.revision for record in records}
        written = set(read_revisions)
        if columns:
            written = stored.update_incidents(tx, read_revisions, columns)
        changed += [record for record in records if record.id in written]
        stale |= {record.number for record in records if record.id not in written}
    _record_update(tx, project, changed, update, context)
    return BulkResult(tuple(sorted(record.number for record in changed)), tuple(sorted(stale)), refused)


def undo_last_change(
    tx: Transaction, project: Project, number: int, revision: int, context: AuditContext
) -> IncidentRecord:
    """Restore the state before the last change by a person; assignee, links and notes stay."""
    record = require_incident(tx, project, number)
    if record.revision != revision:
        raise StaleRevision(record)
    history = stored.load_incident_events(tx, record.id)
    if why := find_undo_refusal(record, history):
        raise PerfciError(why)
    return update_incident(tx, project, number, revision, _build_reverse_update(record, history), context)


def find_undo_refusal(record: IncidentRecord, history: Sequence[IncidentEvent]) -> str:
    """Return why nothing can be undone; empty if something can."""
    name = f"incident {record.number}"
    last = _find_last_state_change(_drop_undone_changes(history))
    if last is not None and last.after != record.state:
        return f"{name.capitalize()} was merged with another one since: split takes its series out again."
    if last is None or not last.before:
        if any(event.action == UNDO_EVENT for event in history):
            return f"The last change of state of {name} was undone already: set the state you want."
        return f"Nobody changed the state of {name} so far."
    if last.actor == SYSTEM_ACTOR:
        return f"{name.capitalize()} was last changed by perfci itself ({last.text}): set the state you want."
    return ""


def find_undoable_change(record: IncidentRecord, history: Sequence[IncidentEvent]) -> IncidentEvent | None:
    """Return the change of state that can be undone, if any."""
    if find_undo_refusal(record, history):
        return None
    return _find_last_state_change(_drop_undone_changes(history))


def _load_original(tx: Transaction, project: Project, update: IncidentUpdate) -> IncidentRecord | None:
    return None if update.duplicate_of is None else require_incident(tx, project, update.duplicate_of)


def _record_update(
    tx: Transaction,
    project: Project,
    before: Sequence[IncidentRecord],
    update: IncidentUpdate,
    context: AuditContext,
) -> None:
    """Write the events, the audit entry, the impact flags and the notifications of a change."""
    if not before:
        return
    stored.add_incident_events(
        tx,
        [(record.id, event) for record in before for event in build_update_events(record, update, context)],
    )
    numbers = [record.number for record in before]
    values = {name: getattr(update, name) for name in ("state", "assignee", "reason")}
    detail: dict[str, Any] = {
        name: str(value) for name, value in values.items() if value not in (None, "", KEEP)
    }
    detail |= {"note": "added"} if update.note else {}
    subject = f"incident {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} incidents"
    listed = {"numbers": numbers[:MAX_LISTED]} if len(numbers) > 1 else {}
    context.add_audit_entry(tx, "incident.change", subject, project.id, detail | listed)
    switched = [record for record in before if update.state is not None and update.state is not record.state]
    if switched and update.state is not None:
        accepted = update.state is IncidentState.ACCEPTED
        set_impacts_accepted(
            tx,
            [record.id for record in switched if accepted or record.state is IncidentState.ACCEPTED],
            accepted,
        )
        _notify_followers(tx, project, switched, update, context)
    mark_projects_changed(tx, [project.id])


def _notify_followers(
    tx: Transaction,
    project: Project,
    before: Sequence[IncidentRecord],
    update: IncidentUpdate,
    context: AuditContext,
) -> None:
    """Notify destinations of incidents that have paged before."""
    now_are = stored.find_incidents_by_number(
        tx, project.id, [record.number for record in before if record.paged_at is not None]
    )
    destinations = load_destinations(tx, project.id)
    for record in now_are.values():
        enqueue_notifications(
            tx,
            project,
            record,
            context.at,
            actor=context.actor.name,
            reason=update.reason,
            candidates=destinations,
        )


def _build_reverse_update(record: IncidentRecord, history: Sequence[IncidentEvent]) -> IncidentUpdate:
    """Build the update that restores the previous state with its fields."""
    history = _drop_undone_changes(history)
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


def _drop_undone_changes(history: Sequence[IncidentEvent]) -> list[IncidentEvent]:
    """Leave out the changes of state that were undone, with the undoing itself: what is left can be undone
    too, the last first.
    """
    kept: list[IncidentEvent] = []
    undone_at = set()
    for event in history:
        if event.action == UNDO_EVENT:
            change = _find_last_state_change(kept)
            undone_at.add(event.at)
            if change is not None:
                undone_at.add(change.at)
                kept = [other for other in kept if other is not change]
        else:
            kept.append(event)
    return [event for event in kept if event.action != "until" or event.at not in undone_at]


def _find_last_state_change(history: Sequence[IncidentEvent]) -> IncidentEvent | None:
    return next((event for event in reversed(history) if _is_state_change(event)), None)


def _is_state_change(event: IncidentEvent) -> bool:
    return event.action in ("state", UNDO_EVENT)


def _parse_time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
