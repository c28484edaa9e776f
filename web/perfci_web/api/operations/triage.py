"""What people decide about incidents, each change made to the revision that they saw."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.net.shapes import incidents as shapes
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.change_request import build_incident_update
from perfci.service.incidents.merge_and_split import merge_incidents, split_members
from perfci.service.incidents.move_boundary import move_boundary, shift_range
from perfci.service.incidents.state_changes import IncidentUpdate
from perfci.service.incidents.triage import StaleRevision, update_incident, update_incidents
from perfci.service.incidents.undo_change import undo_last_change
from perfci.store.incidents import incident_store
from perfci.store.incidents.records import IncidentRecord
from perfci.store.writes.row_ids import find_series_ids
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.operations.incidents import INCIDENT_RULE, PROJECT_RULE, incident_shape, require_incident
from perfci_web.api.problems import ProblemError, RevisionMismatch

T = TypeVar("T")


def change_incident(call: Call) -> Reply:
    require_incident(call)
    number, wanted = call.path["number"], build_incident_update(call.body)
    return _submit_change(
        call,
        lambda tx: update_incident(
            tx, call.required_project, number, call.revision, wanted, _audit_context(call)
        ),
    )


def note_incident(call: Call) -> Reply:
    """A note contradicts nobody: it needs no revision."""
    record = require_incident(call)
    note = IncidentUpdate(note=call.body.text)

    def add(tx: Session) -> IncidentRecord:
        now_is = incident_store.find_incident(tx, call.required_project.id, record.number) or record
        return update_incident(
            tx, call.required_project, record.number, now_is.revision, note, _audit_context(call)
        )

    return _submit_change(call, add)


def change_incidents(call: Call) -> Reply:
    asked: shapes.BulkIncidentPatch = call.body
    revisions = {one.number: one.revision for one in asked.incidents}
    wanted = build_incident_update(asked.change)
    found = call.group_commit.submit(
        lambda tx: update_incidents(tx, call.required_project, revisions, wanted, _audit_context(call))
    )
    refused = tuple(
        shapes.RejectedPatch(number=number, reason=why) for number, why in sorted(found.refused.items())
    )
    return Reply(shapes.BulkPatchResult(changed=found.changed, stale=found.stale, rejected=refused))


def undo_incident(call: Call) -> Reply:
    require_incident(call)
    return _submit_change(
        call,
        lambda tx: undo_last_change(
            tx, call.required_project, call.path["number"], call.revision, _audit_context(call)
        ),
    )


def merge_incident(call: Call) -> Reply:
    require_incident(call)
    others = {one.number: one.revision for one in call.body.others}
    return _submit_change(
        call,
        lambda tx: merge_incidents(
            tx, call.required_project, call.path["number"], call.revision, others, _audit_context(call)
        ),
    )


def split_incident(call: Call) -> Reply:
    require_incident(call)

    def take_apart(tx: Session) -> tuple[IncidentRecord, IncidentRecord]:
        chosen = set(find_series_ids(tx, call.body.series).values())
        return split_members(
            tx, call.required_project, call.path["number"], call.revision, chosen, _audit_context(call)
        )

    left, new = _submit(call, take_apart)
    return Reply(shapes.SplitResult(remaining=incident_shape(left), new=incident_shape(new)))


def move_incident_boundary(call: Call) -> Reply:
    asked: shapes.BoundaryMove = call.body
    record = require_incident(call)
    if (asked.commit_offset is None) == (asked.commit is None or asked.last_good is None):
        raise ProblemError("conflict", "Say either by how many commits, or both ends of the range.")

    def move(tx: Session) -> shapes.BoundaryMoveResult:
        ends = (asked.last_good or "", asked.commit or "")
        good, bad = (
            ends
            if asked.commit_offset is None
            else shift_range(tx, call.required_project, record, asked.commit_offset)
        )
        found = move_boundary(
            tx, call.required_project, record.number, call.revision, good, bad, _audit_context(call)
        )
        tests = tuple(
            shapes.BoundaryTestShape(
                series=one.label,
                sigmas_before=_finite(one.old.sigmas),
                sigmas_after=_finite(one.new.sigmas),
                worse=one.is_worse,
            )
            for one in found.tests
        )
        return shapes.BoundaryMoveResult(
            incident=incident_shape(found.record), tests=tests, worse_count=found.worse_count
        )

    return Reply(_submit(call, move))


def _submit_change(call: Call, job: Callable[[Session], IncidentRecord]) -> Reply:
    record = _submit(call, job)
    return Reply(incident_shape(record), headers={"ETag": f'"{record.revision}"'})


def _submit(call: Call, job: Callable[[Session], T]) -> T:
    try:
        return call.group_commit.submit(job)
    except StaleRevision as error:
        raise RevisionMismatch(error.record.revision) from error


def _audit_context(call: Call) -> AuditContext:
    return AuditContext(call.actor, call.now, call.request_id)


def _finite(value: float) -> float | None:
    """A step of exact counts stands out without end, which JSON has no number for."""
    return value if math.isfinite(value) else None


OPERATIONS = (
    Operation(
        "change_incident",
        "PATCH",
        INCIDENT_RULE,
        AccessRequirement.TRIAGE,
        change_incident,
        "Change an incident as you saw it",
        body=shapes.IncidentPatch,
        answers={200: shapes.IncidentShape},
        revision=True,
    ),
    Operation(
        "change_incidents",
        "POST",
        f"{PROJECT_RULE}/incidents/bulk",
        AccessRequirement.TRIAGE,
        change_incidents,
        "The same change to many",
        body=shapes.BulkIncidentPatch,
        answers={200: shapes.BulkPatchResult},
    ),
    Operation(
        "note_incident",
        "POST",
        f"{INCIDENT_RULE}/notes",
        AccessRequirement.TRIAGE,
        note_incident,
        "Add a note to the history",
        body=shapes.NewNote,
        answers={200: shapes.IncidentShape},
    ),
    Operation(
        "undo_incident",
        "POST",
        f"{INCIDENT_RULE}/undo",
        AccessRequirement.TRIAGE,
        undo_incident,
        "Take back the last change of state",
        answers={200: shapes.IncidentShape},
        revision=True,
    ),
    Operation(
        "merge_incident",
        "POST",
        f"{INCIDENT_RULE}/merge",
        AccessRequirement.TRIAGE,
        merge_incident,
        "Take the series of other incidents in",
        body=shapes.MergeRequest,
        answers={200: shapes.IncidentShape},
        revision=True,
    ),
    Operation(
        "split_incident",
        "POST",
        f"{INCIDENT_RULE}/split",
        AccessRequirement.TRIAGE,
        split_incident,
        "Give some series a number of their own",
        body=shapes.SplitRequest,
        answers={200: shapes.SplitResult},
        revision=True,
    ),
    Operation(
        "nudge_incident",
        "POST",
        f"{INCIDENT_RULE}/nudge",
        AccessRequirement.TRIAGE,
        move_incident_boundary,
        "Move the edge, and test it at once",
        body=shapes.BoundaryMove,
        answers={200: shapes.BoundaryMoveResult},
        revision=True,
    ),
)
