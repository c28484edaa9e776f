"""Deletion of runs, series and projects; the judge worker carries it out in short transactions."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.service.delete_runs_series_projects import (
    request_project_deletion,
    request_run_deletion,
    request_series_deletion,
)
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

ACCEPTED = 202


def delete_run(call: Call) -> Reply:
    return _request_deletion(
        call,
        lambda tx: request_run_deletion(tx, call.audit_context, call.required_project, call.path["key"]),
        "There is no run of this key here.",
    )


def delete_series(call: Call) -> Reply:
    return _request_deletion(
        call,
        lambda tx: request_series_deletion(
            tx, call.audit_context, call.required_project, call.path["series"]
        ),
        "There is no series of this id here.",
    )


def delete_project(call: Call) -> Reply:
    call.group_commit.submit(
        lambda tx: request_project_deletion(tx, call.audit_context, call.required_project)
    )
    return Reply(None, ACCEPTED)


def _request_deletion(call: Call, request: Callable[[Session], bool], missing: str) -> Reply:
    if not call.group_commit.submit(request):
        raise ProblemError("not-found", missing)
    return Reply(None, ACCEPTED)


OPERATIONS = (
    Operation(
        "delete_run",
        "DELETE",
        f"{PROJECT_RULE}/runs/<key:key>",
        AccessRequirement.ADMIN,
        delete_run,
        "Delete a run and all that was derived from it",
        answers={ACCEPTED: None},
    ),
    Operation(
        "delete_series",
        "DELETE",
        f"{PROJECT_RULE}/series/<key:series>",
        AccessRequirement.ADMIN,
        delete_series,
        "Delete a series with its results, verdicts and change points",
        answers={ACCEPTED: None},
    ),
    Operation(
        "delete_project",
        "DELETE",
        PROJECT_RULE,
        AccessRequirement.ADMIN,
        delete_project,
        "Delete a project with everything in it but the lines of the audit log",
        answers={ACCEPTED: None},
    ),
)
