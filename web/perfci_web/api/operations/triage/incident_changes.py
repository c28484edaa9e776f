"""Changes of incidents (state, notes, merge, split, boundary), each made from a known revision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import incidents as shapes
from perfci.service.incidents.incident_update_rules import IncidentUpdate, parse_incident_patch
from perfci.service.incidents.regroup_incidents import (
    compute_shifted_commit_range,
    merge_incidents,
    move_boundary,
    split_off_members,
)
from perfci.service.incidents.triage import StaleRevision, undo_last_change, update_incident, update_incidents
from perfci.store.incidents import incident_store
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.queries.series_commits_machines import find_series_ids_by_identity
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.operations.triage.incidents import INCIDENT_RULE, build_incident_payload, require_incident
from perfci_web.api.problem_details import ProblemError, RevisionMismatch

T = TypeVar("T")


def change_incident(call: Call) -> Reply:
    require_incident(call)
    number, update = call.path["number"], parse_incident_patch(call.body)
    return _submit_change(
        call,
        lambda tx: update_incident(
            tx, call.required_project, number, call.revision, update, call.audit_context
        ),
    )


def add_incident_note(call: Call) -> Reply:
    """Add a note; it conflicts with no other change, so it needs no revision."""
    record = require_incident(call)
    note = IncidentUpdate(note=call.body.text)

    def add(tx: Session) -> IncidentRecord:
        current = incident_store.find_incident(tx, call.required_project.id, record.number) or record
        return update_incident(
            tx, call.required_project, record.number, current.revision, note, call.audit_context
        )

    return _submit_change(call, add)


def change_incidents(call: Call) -> Reply:
    request: shapes.BulkIncidentPatch = call.body
    revisions = {incident.number: incident.revision for incident in request.incidents}
    update = parse_incident_patch(request.change)
    result = call.group_commit.submit(
        lambda tx: update_incidents(tx, call.required_project, revisions, update, call.audit_context)
    )
    rejected = tuple(
        shapes.RejectedPatch(number=number, reason=reason)
        for number, reason in sorted(result.refused.items())
    )
    return Reply(shapes.BulkPatchResult(changed=result.changed, stale=result.stale, rejected=rejected))


def undo_incident_change(call: Call) -> Reply:
    require_incident(call)
    return _submit_change(
        call,
        lambda tx: undo_last_change(
            tx, call.required_project, call.path["number"], call.revision, call.audit_context
        ),
    )


def merge_into_incident(call: Call) -> Reply:
    require_incident(call)
    others = {other.number: other.revision for other in call.body.others}
    return _submit_change(
        call,
        lambda tx: merge_incidents(
            tx, call.required_project, call.path["number"], call.revision, others, call.audit_context
        ),
    )


def split_incident(call: Call) -> Reply:
    require_incident(call)

    def split(tx: Session) -> tuple[IncidentRecord, IncidentRecord]:
        series_ids = set(find_series_ids_by_identity(tx, call.body.series).values())
        return split_off_members(
            tx, call.required_project, call.path["number"], call.revision, series_ids, call.audit_context
        )

    remaining, new = _submit(call, split)
    return Reply(
        shapes.SplitResult(remaining=build_incident_payload(remaining), new=build_incident_payload(new))
    )


def move_incident_boundary(call: Call) -> Reply:
    request: shapes.BoundaryMove = call.body
    record = require_incident(call)
    if (request.commit_offset is None) == (request.commit is None or request.last_good is None):
        raise ProblemError("conflict", "Give either `commit_offset` or both `last_good` and `commit`.")

    def move(tx: Session) -> shapes.BoundaryMoveResult:
        if request.commit_offset is None:
            last_good, commit = request.last_good or "", request.commit or ""
        else:
            last_good, commit = compute_shifted_commit_range(
                tx, call.required_project, record, request.commit_offset
            )
        moved = move_boundary(
            tx, call.required_project, record.number, call.revision, last_good, commit, call.audit_context
        )
        tests = tuple(
            shapes.BoundaryTestShape(
                series=test.label,
                sigmas_before=_finite(test.old.sigmas),
                sigmas_after=_finite(test.new.sigmas),
                worse=test.is_new_boundary_weaker,
            )
            for test in moved.tests
        )
        return shapes.BoundaryMoveResult(
            incident=build_incident_payload(moved.record), tests=tests, worse_count=moved.weaker_series_count
        )

    return Reply(_submit(call, move))


def _submit_change(call: Call, job: Callable[[Session], IncidentRecord]) -> Reply:
    record = _submit(call, job)
    return Reply(build_incident_payload(record), headers={"ETag": f'"{record.revision}"'})


def _submit(call: Call, job: Callable[[Session], T]) -> T:
    try:
        return call.group_commit.submit(job)
    except StaleRevision as error:
        raise RevisionMismatch(error.record.revision) from error


def _finite(value: float) -> float | None:
    """Return None for infinity (a step of exact counts has no noise): JSON has no number for it."""
    return value if math.isfinite(value) else None


OPERATIONS = (
    Operation(
        "change_incident",
        "PATCH",
        INCIDENT_RULE,
        AccessRequirement.TRIAGE,
        change_incident,
        "Change an incident",
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
        "Apply one change to several incidents",
        body=shapes.BulkIncidentPatch,
        answers={200: shapes.BulkPatchResult},
    ),
    Operation(
        "add_incident_note",
        "POST",
        f"{INCIDENT_RULE}/notes",
        AccessRequirement.TRIAGE,
        add_incident_note,
        "Add a note to the history",
        body=shapes.NewNote,
        answers={200: shapes.IncidentShape},
    ),
    Operation(
        "undo_incident",
        "POST",
        f"{INCIDENT_RULE}/undo",
        AccessRequirement.TRIAGE,
        undo_incident_change,
        "Undo the last change of state",
        answers={200: shapes.IncidentShape},
        revision=True,
    ),
    Operation(
        "merge_incident",
        "POST",
        f"{INCIDENT_RULE}/merge",
        AccessRequirement.TRIAGE,
        merge_into_incident,
        "Merge other incidents into this one",
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
        "Split series off into a new incident",
        body=shapes.SplitRequest,
        answers={200: shapes.SplitResult},
        revision=True,
    ),
    Operation(
        "move_incident_boundary",
        "POST",
        f"{INCIDENT_RULE}/move-boundary",
        AccessRequirement.TRIAGE,
        move_incident_boundary,
        "Move the boundary of the commit range and test it",
        body=shapes.BoundaryMove,
        answers={200: shapes.BoundaryMoveResult},
        revision=True,
    ),
)
