"""Regroup incidents by hand: merge, split, or move their commit range; evaluations keep that."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.history.compare_incident_boundaries import BoundaryComparison, compare_incident_boundaries
from perfci.history.incident_inputs import VisitIndex
from perfci.model import Incident, IncidentKind, IncidentState, PerfciError
from perfci.report.incidents import incident_text as words
from perfci.report.serializers import serialize_commit
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.triage import StaleRevision, require_incident
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_records import DATA_KIND, IncidentEvent, IncidentMember, IncidentRecord
from perfci.store.incidents.incident_store import (
    add_incident_members,
    load_incident_members,
    load_member_change_points,
    mark_members_dropped,
)
from perfci.store.projects import Project, mark_projects_changed
from perfci.store.queries import (
    judging_inputs,
    series_commits_machines,
)
from perfci.verdicts.incidents.incident_builder import MAX_CANDIDATE_COMMITS


def merge_incidents(
    tx: Transaction,
    project: Project,
    number: int,
    revision: int,
    others: Mapping[int, int],
    context: AuditContext,
) -> IncidentRecord:
    """Merge other incidents (number to revision) into this one; they become its duplicates."""
    kept = _load_at_revision(tx, project, number, revision)
    if kept.duplicate_number is not None:
        raise PerfciError(
            f"Incident {number} is a duplicate of {kept.duplicate_number}: merge into that one."
        )
    line = _load_visit_index(tx, project)
    ends = [kept]
    for other, other_revision in sorted(others.items()):
        merged = _load_at_revision(tx, project, other, other_revision)
        if merged.id == kept.id:
            raise PerfciError(f"Incident {number} cannot be merged with itself.")
        ends.append(merged)
        _move_members(tx, merged, kept, context)
    good = min(
        (record.last_good for record in ends), key=lambda sha: line.positions.get(sha, len(line.positions))
    )
    bad = max((record.commit for record in ends), key=lambda sha: line.positions.get(sha, -1))
    _pin_incident(tx, kept, _build_member_columns(tx, kept, good, bad, line), context)
    return _finish_change(tx, project, number, "incident.merge", {"others": sorted(others)}, context)


def _move_members(
    tx: Transaction, merged: IncidentRecord, kept: IncidentRecord, context: AuditContext
) -> None:
    """Move the members of an incident into another one, whose duplicate it becomes."""
    taken = load_incident_members(tx, merged.id)
    kept_ids = {member.series_id for member in load_incident_members(tx, kept.id)}
    new = [
        replace(member, added_by=context.actor.name) for member in taken if member.series_id not in kept_ids
    ]
    add_incident_members(tx, kept.id, new)
    mark_members_dropped(tx, merged.id, [member.series_id for member in taken], context.at)
    columns = {
        "state": IncidentState.DUPLICATE.value,
        "duplicate_of": kept.id,
        "accepted_until": None,
        "snoozed_until": None,
        "changed_at": context.at,
        "series_count": 0,
    }
    _pin_incident(tx, merged, columns, context)
    into, out_of = str(kept.number), str(merged.number)
    event = IncidentEvent(context.at, context.actor.name, "merge", out_of, into, f"merged into {into}")
    stored.add_incident_events(tx, [(merged.id, event), (kept.id, replace(event, text=f"took in {out_of}"))])


def split_off_members(
    tx: Transaction,
    project: Project,
    number: int,
    revision: int,
    series_ids: Collection[int],
    context: AuditContext,
) -> tuple[IncidentRecord, IncidentRecord]:
    """Split members off into a new incident; return the remaining and the new one."""
    kept = _load_at_revision(tx, project, number, revision)
    all_members = load_incident_members(tx, kept.id)
    chosen = [member for member in all_members if member.series_id in series_ids]
    if not chosen or len(chosen) == len(all_members):
        problem = (
            f"some of its {len(all_members)} series are to go and some to stay, and {len(chosen)} would go"
        )
        raise PerfciError(f"Incident {number} cannot be split so: {problem}.")
    line = _load_visit_index(tx, project)
    new = _add_copy(tx, project.id, kept, context)
    mark_members_dropped(tx, kept.id, [member.series_id for member in chosen], context.at)
    add_incident_members(tx, new.id, [replace(member, added_by=context.actor.name) for member in chosen])
    staying = [member for member in all_members if member not in chosen]
    last_good, commit = _find_range_of_members(kept, chosen, line)
    stored.update_derived_columns(tx, new.id, _build_member_columns(tx, new, last_good, commit, line))
    last_good, commit = _find_range_of_members(kept, staying, line)
    _pin_incident(tx, kept, _build_member_columns(tx, kept, last_good, commit, line), context)
    text = f"{len(chosen)} series went to {new.number}"
    event = IncidentEvent(context.at, context.actor.name, "split", str(number), str(new.number), text)
    stored.add_incident_events(tx, [(kept.id, event), (new.id, replace(event, text=f"came out of {number}"))])
    left = _finish_change(
        tx, project, number, "incident.split", {"new": new.number, "series": len(chosen)}, context
    )
    return left, require_incident(tx, project, new.number)


def _find_range_of_members(
    record: IncidentRecord, members: Sequence[IncidentMember], line: VisitIndex
) -> tuple[str, str]:
    """The range of some members of an incident: from the first of their own ends to the last of them.

    It never goes beyond the incident's own range; an end that is not on the line is the incident's.
    """
    places = line.positions
    first, last = places.get(record.last_good, -1), places.get(record.commit, len(places))
    begins = [member.last_good for member in members if places.get(member.last_good, -1) >= first]
    ends = [member.commit for member in members if places.get(member.commit, len(places)) <= last]
    last_good = min(begins, key=lambda sha: places.get(sha, -1), default=record.last_good)
    commit = max(ends, key=lambda sha: places.get(sha, len(places)), default=record.commit)
    return last_good, commit


def _add_copy(
    tx: Transaction, project_id: int, source: IncidentRecord, context: AuditContext
) -> IncidentRecord:
    """Add an incident in the state of another one, without its members."""
    columns = {
        "kind": source.kind,
        "last_good": source.last_good,
        "commit": source.commit,
        "headline": source.headline,
        "series_count": source.series_count,
        "disposition": source.disposition,
        "ongoing": source.ongoing,
        "measured_at": source.measured_at,
        "paged_at": source.paged_at,
        "reason": source.reason,
        "snoozed_until": source.snoozed_until,
        "accepted_until": source.accepted_until,
        "detail": dict(source.detail),
        "derived_id": "",
        "state": source.state.value,
        "first_seen": source.first_seen,
        "changed_at": context.at,
        "pinned": True,
    }
    return stored.add_incident(tx, project_id, columns)


@dataclass(frozen=True, slots=True)
class BoundaryMoveOutcome:
    """An incident at its new boundary, with tests of both boundaries on its largest members."""

    record: IncidentRecord
    tests: tuple[BoundaryComparison, ...]

    @property
    def weaker_series_count(self) -> int:
        return sum(test.is_new_boundary_weaker for test in self.tests)


def move_boundary(
    tx: Transaction,
    project: Project,
    number: int,
    revision: int,
    last_good: str,
    commit: str,
    context: AuditContext,
) -> BoundaryMoveOutcome:
    """Move the boundary of an incident and compare it with those of its members.

    These keep their own commits and sizes: what the points say is not changed by the range a person sets.
    """
    record, line = _load_at_revision(tx, project, number, revision), _load_visit_index(tx, project)
    for sha in (last_good, commit):
        if sha not in line.positions:
            raise PerfciError(f"The commit {sha[:10]} is not on the line of {project.slug}.")
    if line.positions[last_good] >= line.positions[commit]:
        raise PerfciError(f"The last good commit comes before the first bad one; {last_good[:10]} does not.")
    tests = compare_incident_boundaries(tx, load_incident_members(tx, record.id), commit)
    columns = _build_member_columns(tx, record, last_good, commit, line)
    _pin_incident(tx, record, columns, context)
    detail = {"commit": commit}
    record_now = _finish_change(tx, project, number, "incident.move_boundary", detail, context)
    outcome = BoundaryMoveOutcome(record_now, tests)
    text = "the points agree"
    if outcome.weaker_series_count:
        text = f"the points fit worse there in {outcome.weaker_series_count} of {len(tests)} series"
    before, after = f"{record.last_good[:10]}..{record.commit[:10]}", f"{last_good[:10]}..{commit[:10]}"
    event = IncidentEvent(context.at, context.actor.name, "move_boundary", before, after, text)
    stored.add_incident_events(tx, [(record.id, event)])
    return outcome


def compute_shifted_commit_range(
    tx: Transaction, project: Project, record: IncidentRecord, steps: int
) -> tuple[str, str]:
    """Return the range of an incident shifted by ``steps`` commits along the main line."""
    if not steps:
        raise PerfciError(f"Incident {record.number} cannot move by 0 commits: give for example -1.")
    line = _load_visit_index(tx, project)
    places = [
        line.positions[sha] + steps for sha in (record.last_good, record.commit) if sha in line.positions
    ]
    if len(places) < 2 or min(places) < 0 or max(places) >= len(line.commits):
        raise PerfciError(
            f"Incident {record.number} cannot be moved by {steps} commits: the line ends there."
        )
    return line.commits[places[0]].sha, line.commits[places[1]].sha


def _load_visit_index(tx: Transaction, project: Project) -> VisitIndex:
    """Load the visit index of a project."""
    return VisitIndex(
        series_commits_machines.load_commits_newest_first(tx, project.slug),
        judging_inputs.load_session_commit_visits(tx, project.slug),
    )


def _load_at_revision(tx: Transaction, project: Project, number: int, revision: int) -> IncidentRecord:
    """Load an incident at the revision a person saw, and check that its members may be changed."""
    record = require_incident(tx, project, number)
    if record.kind == DATA_KIND:
        raise PerfciError(
            f"Incident {number} is about missing data: it has no boundary and no members to change."
        )
    if record.revision != revision:
        raise StaleRevision(record)
    if record.duplicate_number is not None and not load_incident_members(tx, record.id):
        merged_into = record.duplicate_number
        raise PerfciError(
            f"Incident {number} was merged into {merged_into}, which has its series: change that one."
        )
    return record


def _pin_incident(
    tx: Transaction, record: IncidentRecord, columns: Mapping[str, object], context: AuditContext
) -> None:
    """Store changed members or boundary and pin the incident, so that evaluations keep them."""
    triaged = {} if record.triaged_at else {"triaged_at": context.at}
    if not stored.update_incident(tx, record.id, record.revision, {**columns, **triaged, "pinned": True}):
        raise StaleRevision(record)


def _build_member_columns(
    tx: Transaction, record: IncidentRecord, last_good: str, commit: str, line: VisitIndex
) -> dict[str, Any]:
    """Build the range and text columns of an incident after its members or boundary changed."""
    moved: Sequence[IncidentMember] = load_incident_members(tx, record.id)
    change_points = tuple(
        sorted(load_member_change_points(tx, moved), key=lambda change: -abs(change.log_cost_change))
    )
    incident = Incident(record.derived_id, IncidentKind(record.kind), last_good, commit, change_points)
    detail = {**record.detail, **_build_candidates(last_good, commit, line)}
    largest = words.member_change_sentence(change_points[0]) if change_points else ""
    return {
        "last_good": last_good,
        "commit": commit,
        "headline": words.incident_headline(incident, line.by_sha),
        "series_count": len(moved),
        "severity": max((change.log_cost_change for change in change_points), default=None),
        "detail": {**detail, "largest": largest, "next_measurement": None},
    }


def _build_candidates(last_good: str, commit: str, line: VisitIndex) -> dict[str, Any]:
    """The candidate commits of a range; nothing where an end of it is not on the line."""
    if last_good not in line.positions or commit not in line.positions:
        return {}
    between = line.commits[line.positions[last_good] + 1 : line.positions[commit] + 1]
    return {"candidate_commits": [serialize_commit(item) for item in between[:MAX_CANDIDATE_COMMITS]]}


def _finish_change(
    tx: Transaction,
    project: Project,
    number: int,
    action: str,
    detail: Mapping[str, object],
    context: AuditContext,
) -> IncidentRecord:
    """Record a change in the audit log and return the incident as it is now."""
    context.add_audit_entry(tx, action, f"incident {number}", project.id, detail)
    mark_projects_changed(tx, [project.id])
    return require_incident(tx, project, number)
