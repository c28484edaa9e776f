"""Change incidents on request of people: at the revision they saw, with audit entry and notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.state_changes import (
    KEEP,
    IncidentUpdate,
    build_update_columns,
    build_update_events,
)
from perfci.service.notify.enqueue_notifications import enqueue_notifications
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import set_impacts_accepted
from perfci.store.incidents.records import IncidentRecord
from perfci.store.jobs.delivery_queue import load_destinations
from perfci.store.projects import Project, mark_changed


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
    current = stored.find_incidents(tx, project.id, revisions)
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
        written = _write_at_revisions(tx, records, columns)
        changed += [record for record in records if record.id in written]
        stale |= {record.number for record in records if record.id not in written}
    _record_update(tx, project, changed, update, context)
    return BulkResult(tuple(sorted(record.number for record in changed)), tuple(sorted(stale)), refused)


def _write_at_revisions(
    tx: Transaction, records: Sequence[IncidentRecord], columns: Mapping[str, Any]
) -> set[int]:
    """Write columns where the revision is unchanged; return the ids written, all if nothing is to be."""
    revisions = {record.id: record.revision for record in records}
    return set(stored.update_incidents(tx, revisions, columns)) if columns else set(revisions)


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
    stored.add_events(
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
    context.record(tx, "incident.change", subject, project.id, detail | listed)
    switched = [record for record in before if update.state is not None and update.state is not record.state]
    if switched and update.state is not None:
        accepted = update.state is IncidentState.ACCEPTED
        set_impacts_accepted(
            tx,
            [record.id for record in switched if accepted or record.state is IncidentState.ACCEPTED],
            accepted,
        )
        _notify_followers(tx, project, switched, update, context)
    mark_changed(tx, [project.id])


def _notify_followers(
    tx: Transaction,
    project: Project,
    before: Sequence[IncidentRecord],
    update: IncidentUpdate,
    context: AuditContext,
) -> None:
    """Notify destinations of incidents that have paged before."""
    now_are = stored.find_incidents(
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
