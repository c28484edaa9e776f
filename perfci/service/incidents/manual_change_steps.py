"""Common steps of changes to the members or the boundary of an incident, which pin it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.history.project_snapshot import VisitIndex
from perfci.model import Commit, Incident, IncidentKind, PerfciError
from perfci.report.incidents import incident_text as words
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.triage import StaleRevision, require_incident
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import load_member_change_points, load_members
from perfci.store.incidents.records import DATA_KIND, IncidentMember, IncidentRecord
from perfci.store.projects import Project, mark_changed
from perfci.store.queries import loaders, result_summaries


def load_visit_index(tx: Transaction, project: Project) -> VisitIndex:
    """Load the visit index of a project."""
    return VisitIndex(
        loaders.load_commits_newest_first(tx, project.slug), result_summaries.load_visits(tx, project.slug)
    )


def load_at_revision(tx: Transaction, project: Project, number: int, revision: int) -> IncidentRecord:
    """Load an incident at the revision a person saw, and check that its members may be changed."""
    record = require_incident(tx, project, number)
    if record.kind == DATA_KIND:
        raise PerfciError(
            f"Incident {number} is about missing data: it has no boundary and no members to change."
        )
    if record.revision != revision:
        raise StaleRevision(record)
    if record.duplicate_number is not None and not load_members(tx, record.id):
        merged_into = record.duplicate_number
        raise PerfciError(
            f"Incident {number} was merged into {merged_into}, which has its series: change that one."
        )
    return record


def pin_incident(
    tx: Transaction, record: IncidentRecord, columns: Mapping[str, object], context: AuditContext
) -> None:
    """Store changed members or boundary and pin the incident, so that evaluations keep them."""
    triaged = {} if record.triaged_at else {"triaged_at": context.at}
    if not stored.update_incident(tx, record.id, record.revision, {**columns, **triaged, "pinned": True}):
        raise StaleRevision(record)


def build_member_columns(
    tx: Transaction, record: IncidentRecord, last_good: str, commit: str, commits: Mapping[str, Commit]
) -> dict[str, Any]:
    """Build the range and text columns of an incident after its members or boundary changed."""
    moved: Sequence[IncidentMember] = load_members(tx, record.id)
    change_points = tuple(
        sorted(load_member_change_points(tx, moved), key=lambda change: -abs(change.log_cost))
    )
    incident = Incident(record.derived_id, IncidentKind(record.kind), last_good, commit, change_points)
    largest = words.member_sentence(change_points[0]) if change_points else ""
    return {
        "last_good": last_good,
        "commit": commit,
        "headline": words.incident_headline(incident, commits),
        "series_count": len(moved),
        "severity": max((change.log_cost for change in change_points), default=None),
        "detail": {**record.detail, "largest": largest, "next_measurement": None},
    }


def finish_change(
    tx: Transaction,
    project: Project,
    number: int,
    action: str,
    detail: Mapping[str, object],
    context: AuditContext,
) -> IncidentRecord:
    """Record a change in the audit log and return the incident as it is now."""
    context.record(tx, action, f"incident {number}", project.id, detail)
    mark_changed(tx, [project.id])
    return require_incident(tx, project, number)
