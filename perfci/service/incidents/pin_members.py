"""What every change of an incident's members or edge has in common: it is a person's, and it stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.history.visit_index import Timetable
from perfci.model import Commit, Incident, IncidentKind, PerfciError
from perfci.report.incidents import incident_text as words
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.triage import Stale, incident_of
from perfci.store.access import audit_log
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import changes, members
from perfci.store.incidents.records import DATA, IncidentRecord, Member
from perfci.store.projects import Project, touch
from perfci.store.queries import commit_visits, measurements
from perfci.verdicts.incidents.step_causes import cost_of


def line_of(tx: Transaction, project: Project) -> Timetable:
    return Timetable(measurements.commits(tx, project.slug), commit_visits.visits(tx, project.slug))


def seen_at(tx: Transaction, project: Project, number: int, revision: int) -> IncidentRecord:
    """An incident as somebody saw it, of which the members and the edge may be changed."""
    record = incident_of(tx, project, number)
    if record.kind == DATA:
        raise PerfciError(f"Incident {number} is about missing data: it has no edge and nothing to take apart.")
    if record.revision != revision:
        raise Stale(record)
    if record.duplicate_number is not None and not members(tx, record.id):
        merged_into = record.duplicate_number
        raise PerfciError(f"Incident {number} was merged into {merged_into}, which has its series: change that one.")
    return record


def pin(tx: Transaction, record: IncidentRecord, columns: Mapping[str, object], by: AuditContext) -> None:
    """Write what a person decided of its members or its edge: no look takes that back."""
    triaged = {} if record.triaged_at else {"triaged_at": by.at}
    if not stored.change(tx, record.id, record.revision, {**columns, **triaged, "pinned": True}):
        raise Stale(record)


def of_members(
    tx: Transaction, record: IncidentRecord, last_good: str, commit: str, commits: Mapping[str, Commit]
) -> dict[str, Any]:
    """The range and the words of an incident that has other members or another edge than the look gave it."""
    moved: Sequence[Member] = members(tx, record.id)
    found = tuple(sorted(changes(tx, moved), key=lambda change: -abs(cost_of(change))))
    words_of = Incident(record.derived_id, IncidentKind(record.kind), last_good, commit, found)
    largest = words.largest(words_of) if found else ""
    return {
        "last_good": last_good,
        "commit": commit,
        "headline": words.headline(words_of, commits),
        "series_count": len(moved),
        "cost": max((cost_of(change) for change in found), default=None),
        "detail": {**record.detail, "largest": largest, "measure": None},
    }


def done(
    tx: Transaction, project: Project, number: int, action: str, detail: Mapping[str, object], by: AuditContext
) -> IncidentRecord:
    audit_log.record(
        tx, by.actor.name, action, f"incident {number}",
        at=by.at, project_id=project.id, detail=detail, request_id=by.request_id,
    )  # fmt: skip
    touch(tx, [project.id])
    return incident_of(tx, project, number)
