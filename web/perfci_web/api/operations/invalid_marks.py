"""Runs and points marked invalid: kept and shown, and left out of everything that is judged."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas import invalid_marks as shapes
from perfci.service.invalidate_results import MarkTarget, serialize_mark, set_mark
from perfci.store.queries.invalid_marks import list_invalid_marks
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

RUN_MARK_RULE = f"{PROJECT_RULE}/runs/<key:key>/invalid-mark"
POINT_MARK_RULE = f"{PROJECT_RULE}/series/<key:series>/points/<name:sha>/invalid-mark"
NO_CONTENT = 204


def list_marks(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        records = list_invalid_marks(
            tx,
            call.required_project.id,
            after=pagination.parse_cursor(query.cursor),
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        shapes.InvalidMarkPage,
        records,
        query.limit,
        lambda record: record.id,
        serialize_mark,
    )


def mark_run_invalid(call: Call) -> Reply:
    return _set_mark(call, _parse_run(call), call.body.reason)


def mark_run_valid(call: Call) -> Reply:
    return _set_mark(call, _parse_run(call), None)


def mark_point_invalid(call: Call) -> Reply:
    return _set_mark(call, _parse_point(call), call.body.reason)


def mark_point_valid(call: Call) -> Reply:
    return _set_mark(call, _parse_point(call), None)


def _parse_run(call: Call) -> MarkTarget:
    return MarkTarget(run_key=call.path["key"])


def _parse_point(call: Call) -> MarkTarget:
    return MarkTarget(series=call.path["series"], sha=call.path["sha"])


def _set_mark(call: Call, target: MarkTarget, reason: str | None) -> Reply:
    context, project = call.audit_context, call.required_project
    if not call.group_commit.submit(lambda tx: set_mark(tx, context, project, target, reason)):
        raise ProblemError("not-found", f"There is no {target} here.")
    return Reply(None, NO_CONTENT)


OPERATIONS = (
    Operation(
        "list_invalid_marks",
        "GET",
        f"{PROJECT_RULE}/invalid-marks",
        AccessRequirement.READ,
        list_marks,
        "Runs and points marked invalid, who marked them and why",
        query=PageQuery,
        answers={200: shapes.InvalidMarkPage},
        etag=True,
    ),
    Operation(
        "mark_run_invalid",
        "PUT",
        RUN_MARK_RULE,
        AccessRequirement.TRIAGE,
        mark_run_invalid,
        "Mark a run as invalid: it is kept and shown, and nothing is derived from it",
        body=shapes.NewInvalidMark,
        answers={NO_CONTENT: None},
    ),
    Operation(
        "mark_run_valid",
        "DELETE",
        RUN_MARK_RULE,
        AccessRequirement.TRIAGE,
        mark_run_valid,
        "Take the mark of a run back",
        answers={NO_CONTENT: None},
    ),
    Operation(
        "mark_point_invalid",
        "PUT",
        POINT_MARK_RULE,
        AccessRequirement.TRIAGE,
        mark_point_invalid,
        "Mark what a series came to at a commit as invalid",
        body=shapes.NewInvalidMark,
        answers={NO_CONTENT: None},
    ),
    Operation(
        "mark_point_valid",
        "DELETE",
        POINT_MARK_RULE,
        AccessRequirement.TRIAGE,
        mark_point_valid,
        "Take the mark of a point back",
        answers={NO_CONTENT: None},
    ),
)
