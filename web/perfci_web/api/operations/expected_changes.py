"""What was announced of commits of the main branch: told by jobs that write a history, and listed."""

from __future__ import annotations

from perfci.auth.grants import expected_change_refusal
from perfci.auth.permissions import AccessDenied, AccessRequirement
from perfci.net.shapes import PageQuery
from perfci.net.shapes.expected_changes import (
    AddedExpectedChanges,
    ExpectedChangePage,
    ExpectedChangeShape,
    NewExpectedChanges,
)
from perfci.service.audit_context import AuditContext
from perfci.service.expected_changes.save_changes import save_expected_changes
from perfci.store.incidents import expected_changes
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.incidents.expected_change_match import MergedExpectedChange
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation

EXPECTED_CHANGES_RULE = "/projects/<project:project>/announcements"


def list_expected_changes(call: Call) -> Reply:
    asked: PageQuery = call.query
    with call.store.read() as tx:
        found = expected_changes.list_expected_changes(
            tx, call.required_project.id, before=pagination.parse_cursor(asked.cursor), limit=asked.limit + 1
        )
    items, following = pagination.cut_page(found, asked.limit, lambda one: one.id)
    return Reply(ExpectedChangePage(items=tuple(map(_expected_change_shape, items)), next=following))


def add_expected_changes(call: Call) -> Reply:
    asked: NewExpectedChanges = call.body
    if call.actor.grant is not None and (problem := expected_change_refusal(call.actor.grant, asked.commit)):
        raise AccessDenied(403, problem)
    told = [
        MergedExpectedChange(
            asked.commit,
            ExpectedChange(one.match, one.relative_change, one.reason),
            asked.source,
            asked.merged_at,
        )
        for one in asked.items
    ]
    act = AuditContext(call.actor, call.now, call.request_id)
    kept = call.group_commit.submit(lambda tx: save_expected_changes(tx, call.required_project, told, act))
    return Reply(AddedExpectedChanges(added=kept))


def _expected_change_shape(line: expected_changes.ExpectedChangeListItem) -> ExpectedChangeShape:
    one = line.record
    return ExpectedChangeShape(
        commit=one.sha,
        match=one.match,
        relative_change=one.change,
        reason=one.reason,
        source=one.source,
        merged_at=one.merged_at,
        recorded_by=line.recorded_by,
        recorded_at=line.recorded_at,
    )


OPERATIONS = (
    Operation(
        "list_announcements",
        "GET",
        EXPECTED_CHANGES_RULE,
        AccessRequirement.READ,
        list_expected_changes,
        "What was announced of commits of the main branch, last told first",
        query=PageQuery,
        answers={200: ExpectedChangePage},
        etag=True,
    ),
    Operation(
        "add_announcements",
        "POST",
        EXPECTED_CHANGES_RULE,
        AccessRequirement.WRITE_RESULTS,
        add_expected_changes,
        "Tell what was announced of a commit; told again it stays one",
        body=NewExpectedChanges,
        answers={200: AddedExpectedChanges},
    ),
)
