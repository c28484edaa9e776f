"""What people do with an incident: every change is made to the revision they saw, kept, and told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.state_changes import KEEP, Change, columns_of, events_of
from perfci.service.notify.enqueue_notifications import tell
from perfci.store.access import audit_log
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import accept_moves
from perfci.store.incidents.records import IncidentRecord
from perfci.store.jobs.delivery_queue import destinations
from perfci.store.projects import Project, touch


class Stale(PerfciError):
    """Somebody changed the incident since it was looked at."""

    def __init__(self, record: IncidentRecord) -> None:
        super().__init__(
            f"Incident {record.number} was changed meanwhile and is {record.state.replace('_', ' ')} now "
            f"(revision {record.revision}): look at it again."
        )
        self.record = record


MOST_LISTED = 500
"""Incidents that one line of the audit log names; more are not changed at once."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """What became of a change to many: what took it, what somebody else had changed, and what cannot take it."""

    changed: tuple[int, ...] = ()
    stale: tuple[int, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)


def incident_of(tx: Transaction, project: Project, number: int) -> IncidentRecord:
    found = stored.numbered(tx, project.id, number)
    if found is None:
        raise PerfciError(f"{project.slug} has no incident {number}: perfci alerts list shows them.")
    return found


def change(
    tx: Transaction, project: Project, number: int, revision: int, wanted: Change, by: AuditContext
) -> IncidentRecord:
    """Change one incident as it was seen at this revision."""
    record = incident_of(tx, project, number)
    if record.revision != revision:
        raise Stale(record)
    columns = columns_of(record, wanted, by.at, _original(tx, project, wanted))
    if columns and not stored.change(tx, record.id, revision, columns):
        raise Stale(incident_of(tx, project, number))
    _keep(tx, project, [record], wanted, by)
    return incident_of(tx, project, number)


def change_many(
    tx: Transaction, project: Project, revisions: Mapping[int, int], wanted: Change, by: AuditContext
) -> Bulk:
    """The same change to many incidents (number to revision), in a few statements however many there are."""
    found = stored.numbered_all(tx, project.id, revisions)
    refused = dict.fromkeys(revisions.keys() - found.keys(), "there is no such incident")
    takers: dict[str, tuple[dict[str, Any], list[IncidentRecord]]] = {}
    original = _original(tx, project, wanted)
    stale = {one.number for one in found.values() if one.revision != revisions[one.number]}
    for record in found.values():
        if record.number in stale:
            continue
        try:
            columns = columns_of(record, wanted, by.at, original)
        except PerfciError as error:
            refused[record.number] = str(error)
            continue
        takers.setdefault(repr(sorted(columns.items(), key=str)), (columns, []))[1].append(record)
    changed: list[IncidentRecord] = []
    for columns, records in takers.values():
        took = stored.change_all(tx, {one.id: one.revision for one in records}, columns) if columns else set()
        changed += [one for one in records if one.id in took or not columns]
        stale |= {one.number for one in records if columns and one.id not in took}
    _keep(tx, project, changed, wanted, by)
    return Bulk(tuple(sorted(one.number for one in changed)), tuple(sorted(stale)), refused)


def _original(tx: Transaction, project: Project, wanted: Change) -> IncidentRecord | None:
    return None if wanted.duplicate_of is None else incident_of(tx, project, wanted.duplicate_of)


def _keep(
    tx: Transaction, project: Project, before: Sequence[IncidentRecord], wanted: Change, by: AuditContext
) -> None:
    """Histories, the audit log, the ledger and the messages that go with a change."""
    if not before:
        return
    stored.add_events(tx, [(one.id, event) for one in before for event in events_of(one, wanted, by)])
    numbers = [one.number for one in before]
    told = {name: getattr(wanted, name) for name in ("state", "assignee", "reason")}
    detail: dict[str, Any] = {name: str(value) for name, value in told.items() if value not in (None, "", KEEP)}
    detail |= {"note": "added"} if wanted.note else {}
    subject = f"incident {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} incidents"
    listed = {"numbers": numbers[:MOST_LISTED]} if len(numbers) > 1 else {}
    audit_log.record(
        tx, by.actor.name, "incident.change", subject, at=by.at, project_id=project.id, detail=detail | listed,
        request_id=by.request_id,
    )  # fmt: skip
    switched = [one for one in before if wanted.state is not None and wanted.state is not one.state]
    if switched and wanted.state is not None:
        accepted = wanted.state is IncidentState.ACCEPTED
        accept_moves(tx, [one.id for one in switched if accepted or one.state is IncidentState.ACCEPTED], accepted)
        _tell(tx, project, switched, wanted, by)
    touch(tx, [project.id])


def _tell(
    tx: Transaction, project: Project, before: Sequence[IncidentRecord], wanted: Change, by: AuditContext
) -> None:
    """Who was told that an incident began may want to hear how it goes on."""
    now_are = stored.numbered_all(tx, project.id, [one.number for one in before if one.paged_at is not None])
    known = destinations(tx, project.id)
    for record in now_are.values():
        tell(tx, project, record, by.at, actor=by.actor.name, reason=wanted.reason, among=known)
