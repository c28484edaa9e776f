"""What people decide about incidents, each change made to the revision that they saw."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.auth.permissions import Need
from perfci.net.shapes import incidents as shapes
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.change_request import change_of
from perfci.service.incidents.merge_and_split import merge, split
from perfci.service.incidents.move_boundary import nudge, shifted
from perfci.service.incidents.state_changes import Change
from perfci.service.incidents.triage import Stale, change, change_many
from perfci.service.incidents.undo_change import undo
from perfci.store.incidents import incident_store
from perfci.store.incidents.records import IncidentRecord
from perfci.store.writes.row_ids import stored_series
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.operations.incidents import ONE, P, incident_of, shape_of
from perfci_web.api.problems import Declined
from perfci_web.api.problems import Stale as StaleRevision

T = TypeVar("T")


def change_incident(call: Call) -> Reply:
    incident_of(call)
    number, wanted = call.path["number"], change_of(call.body)
    return _changed(call, lambda tx: change(tx, call.the_project, number, call.revision, wanted, _by(call)))


def note_incident(call: Call) -> Reply:
    """A note contradicts nobody: it needs no revision."""
    record = incident_of(call)
    note = Change(note=call.body.text)

    def add(tx: Session) -> IncidentRecord:
        now_is = incident_store.numbered(tx, call.the_project.id, record.number) or record
        return change(tx, call.the_project, record.number, now_is.revision, note, _by(call))

    return _changed(call, add)


def change_incidents(call: Call) -> Reply:
    asked: shapes.BulkChange = call.body
    revisions = {one.number: one.revision for one in asked.incidents}
    wanted = change_of(asked.change)
    found = call.group.submit(lambda tx: change_many(tx, call.the_project, revisions, wanted, _by(call)))
    refused = tuple(shapes.RefusedChange(number=number, why=why) for number, why in sorted(found.refused.items()))
    return Reply(shapes.BulkAnswer(changed=found.changed, stale=found.stale, refused=refused))


def undo_incident(call: Call) -> Reply:
    incident_of(call)
    return _changed(call, lambda tx: undo(tx, call.the_project, call.path["number"], call.revision, _by(call)))


def merge_incident(call: Call) -> Reply:
    incident_of(call)
    others = {one.number: one.revision for one in call.body.others}
    return _changed(call, lambda tx: merge(tx, call.the_project, call.path["number"], call.revision, others, _by(call)))


def split_incident(call: Call) -> Reply:
    incident_of(call)

    def take_apart(tx: Session) -> tuple[IncidentRecord, IncidentRecord]:
        chosen = set(stored_series(tx, call.body.series).values())
        return split(tx, call.the_project, call.path["number"], call.revision, chosen, _by(call))

    left, new = _submitted(call, take_apart)
    return Reply(shapes.SplitAnswer(left=shape_of(left), new=shape_of(new)))


def nudge_incident(call: Call) -> Reply:
    asked: shapes.Nudge = call.body
    record = incident_of(call)
    if (asked.by is None) == (asked.commit is None or asked.last_good is None):
        raise Declined("conflict", "Say either by how many commits, or both ends of the range.")

    def move(tx: Session) -> shapes.NudgeAnswer:
        ends = (asked.last_good or "", asked.commit or "")
        good, bad = ends if asked.by is None else shifted(tx, call.the_project, record, asked.by)
        found = nudge(tx, call.the_project, record.number, call.revision, good, bad, _by(call))
        tests = tuple(
            shapes.EdgeTest(
                series=one.label, sigmas_before=_finite(one.was.sigmas), sigmas_now=_finite(one.now.sigmas),
                worse=one.worse,
            )
            for one in found.tests
        )  # fmt: skip
        return shapes.NudgeAnswer(incident=shape_of(found.record), tests=tests, worse=found.worse)

    return Reply(_submitted(call, move))


def _changed(call: Call, job: Callable[[Session], IncidentRecord]) -> Reply:
    record = _submitted(call, job)
    return Reply(shape_of(record), headers={"ETag": f'"{record.revision}"'})


def _submitted(call: Call, job: Callable[[Session], T]) -> T:
    try:
        return call.group.submit(job)
    except Stale as error:
        raise StaleRevision(error.record.revision) from error


def _by(call: Call) -> AuditContext:
    return AuditContext(call.actor, call.now, call.request_id)


def _finite(value: float) -> float | None:
    """A step of exact counts stands out without end, which JSON has no number for."""
    return value if math.isfinite(value) else None


OPERATIONS = (
    Operation(
        "change_incident", "PATCH", ONE, Need.TRIAGE, change_incident, "Change an incident as you saw it",
        body=shapes.IncidentChange, answers={200: shapes.IncidentShape}, revision=True,
    ),
    Operation(
        "change_incidents", "POST", f"{P}/incidents/bulk", Need.TRIAGE, change_incidents, "The same change to many",
        body=shapes.BulkChange, answers={200: shapes.BulkAnswer},
    ),
    Operation(
        "note_incident", "POST", f"{ONE}/notes", Need.TRIAGE, note_incident, "Add a note to the history",
        body=shapes.NewNote, answers={200: shapes.IncidentShape},
    ),
    Operation(
        "undo_incident", "POST", f"{ONE}/undo", Need.TRIAGE, undo_incident, "Take back the last change of state",
        answers={200: shapes.IncidentShape}, revision=True,
    ),
    Operation(
        "merge_incident", "POST", f"{ONE}/merge", Need.TRIAGE, merge_incident, "Take the series of other incidents in",
        body=shapes.Merge, answers={200: shapes.IncidentShape}, revision=True,
    ),
    Operation(
        "split_incident", "POST", f"{ONE}/split", Need.TRIAGE, split_incident, "Give some series a number of their own",
        body=shapes.Split, answers={200: shapes.SplitAnswer}, revision=True,
    ),
    Operation(
        "nudge_incident", "POST", f"{ONE}/nudge", Need.TRIAGE, nudge_incident, "Move the edge, and test it at once",
        body=shapes.Nudge, answers={200: shapes.NudgeAnswer}, revision=True,
    ),
)  # fmt: skip
