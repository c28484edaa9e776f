"""Where the step is, as a person sees it; and what the points say of that."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy.orm import Session as Transaction

from perfci.history.step_evidence import Retested, retested
from perfci.model import PerfciError
from perfci.report.serializers import commit_fields
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.pin_members import done, line_of, of_members, pin, seen_at
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import add_members, members
from perfci.store.incidents.records import Event, IncidentRecord
from perfci.store.projects import Project
from perfci.verdicts.incidents.incident_builder import MOST_SUSPECTS


@dataclass(frozen=True, slots=True)
class Nudged:
    """An incident at its new edge, and what the points of its largest members say of both edges."""

    record: IncidentRecord
    tests: tuple[Retested, ...]

    @property
    def worse(self) -> int:
        return sum(one.worse for one in self.tests)


def nudge(
    tx: Transaction, project: Project, number: int, revision: int, last_good: str, commit: str, by: AuditContext
) -> Nudged:
    """Move the edge of an incident, and test at once what its series say of it there."""
    record, line = seen_at(tx, project, number, revision), line_of(tx, project)
    for sha in (last_good, commit):
        if sha not in line.place:
            raise PerfciError(f"The commit {sha[:10]} is not on the line of {project.slug}.")
    if line.place[last_good] >= line.place[commit]:
        raise PerfciError(f"The last good commit comes before the first bad one; {last_good[:10]} does not.")
    moved = members(tx, record.id)
    tests = retested(tx, moved, record.commit, commit, last_good)
    again = {one.member.series_id: one.member for one in tests}
    plain = [replace(one, commit=commit, last_good=last_good) for one in moved if one.series_id not in again]
    add_members(tx, record.id, [*again.values(), *plain])
    between = line.line[line.place[last_good] + 1 : line.place[commit] + 1][:MOST_SUSPECTS]
    suspects = [commit_fields(one) for one in between]
    columns = of_members(tx, record, last_good, commit, line.by_sha)
    pin(tx, record, columns | {"detail": {**columns["detail"], "suspects": suspects}}, by)
    found = Nudged(done(tx, project, number, "incident.nudge", {"commit": commit}, by), tests)
    text = f"the points fit worse there in {found.worse} of {len(tests)} series" if found.worse else "the points agree"
    before, after = f"{record.last_good[:10]}..{record.commit[:10]}", f"{last_good[:10]}..{commit[:10]}"
    stored.add_events(tx, [(record.id, Event(by.at, by.actor.name, "nudge", before, after, text))])
    return found


def shifted(tx: Transaction, project: Project, record: IncidentRecord, steps: int) -> tuple[str, str]:
    """Both ends of an incident's range so many commits further along the line, or back."""
    if not steps:
        raise PerfciError(f"Incident {record.number} stays where it is by 0 commits: say for example -1.")
    line = line_of(tx, project)
    places = [line.place[sha] + steps for sha in (record.last_good, record.commit) if sha in line.place]
    if len(places) < 2 or min(places) < 0 or max(places) >= len(line.line):
        raise PerfciError(f"Incident {record.number} cannot be moved by {steps} commits: the line ends there.")
    return line.line[places[0]].sha, line.line[places[1]].sha
