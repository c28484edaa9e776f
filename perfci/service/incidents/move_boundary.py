"""Move the commit range of an incident by hand and test the new boundary against the points."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.step_evidence import BoundaryComparison, compare_boundaries
from perfci.model import PerfciError
from perfci.report.serializers import serialize_commit
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.manual_change_steps import (
    build_member_columns,
    finish_change,
    load_at_revision,
    load_visit_index,
    pin_incident,
)
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import add_members, load_members
from perfci.store.incidents.records import IncidentEvent, IncidentRecord
from perfci.store.projects import Project
from perfci.verdicts.incidents.incident_builder import MAX_CANDIDATE_COMMITS


@dataclass(frozen=True, slots=True)
class BoundaryMoveOutcome:
    """An incident at its new boundary, with tests of both boundaries on its largest members."""

    record: IncidentRecord
    tests: tuple[BoundaryComparison, ...]

    @property
    def worse_count(self) -> int:
        return sum(test.is_worse for test in self.tests)


def move_boundary(
    tx: Transaction,
    project: Project,
    number: int,
    revision: int,
    last_good: str,
    commit: str,
    context: AuditContext,
) -> BoundaryMoveOutcome:
    """Move the boundary of an incident and compare both boundaries on its series."""
    record, line = load_at_revision(tx, project, number, revision), load_visit_index(tx, project)
    for sha in (last_good, commit):
        if sha not in line.positions:
            raise PerfciError(f"The commit {sha[:10]} is not on the line of {project.slug}.")
    if line.positions[last_good] >= line.positions[commit]:
        raise PerfciError(f"The last good commit comes before the first bad one; {last_good[:10]} does not.")
    moved = load_members(tx, record.id)
    tests = compare_boundaries(tx, moved, record.commit, commit, last_good)
    again = {test.member.series_id: test.member for test in tests}
    plain = [
        replace(member, commit=commit, last_good=last_good)
        for member in moved
        if member.series_id not in again
    ]
    add_members(tx, record.id, [*again.values(), *plain])
    between = line.commits[line.positions[last_good] + 1 : line.positions[commit] + 1][:MAX_CANDIDATE_COMMITS]
    candidates = [serialize_commit(candidate) for candidate in between]
    columns = build_member_columns(tx, record, last_good, commit, line.by_sha)
    detail = {**columns["detail"], "candidate_commits": candidates}
    pin_incident(tx, record, columns | {"detail": detail}, context)
    outcome = BoundaryMoveOutcome(
        finish_change(tx, project, number, "incident.move_boundary", {"commit": commit}, context), tests
    )
    text = (
        f"the points fit worse there in {outcome.worse_count} of {len(tests)} series"
        if outcome.worse_count
        else "the points agree"
    )
    before, after = f"{record.last_good[:10]}..{record.commit[:10]}", f"{last_good[:10]}..{commit[:10]}"
    stored.add_events(
        tx, [(record.id, IncidentEvent(context.at, context.actor.name, "move_boundary", before, after, text))]
    )
    return outcome


def shift_range(tx: Transaction, project: Project, record: IncidentRecord, steps: int) -> tuple[str, str]:
    """Return the range of an incident shifted by ``steps`` commits along the main line."""
    if not steps:
        raise PerfciError(f"Incident {record.number} cannot move by 0 commits: give for example -1.")
    line = load_visit_index(tx, project)
    places = [
        line.positions[sha] + steps for sha in (record.last_good, record.commit) if sha in line.positions
    ]
    if len(places) < 2 or min(places) < 0 or max(places) >= len(line.commits):
        raise PerfciError(
            f"Incident {record.number} cannot be moved by {steps} commits: the line ends there."
        )
    return line.commits[places[0]].sha, line.commits[places[1]].sha
