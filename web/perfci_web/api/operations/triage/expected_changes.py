"""Expected changes of commits on the main branch: recorded by jobs, and listed."""

from __future__ import annotations

from perfci.auth.job_grants import explain_expected_change_refusal
from perfci.auth.permissions import AccessDenied, AccessRequirement
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas.verdicts_and_expected_changes import (
    AddedExpectedChanges,
    ExpectedChangePage,
    ExpectedChangeShape,
    NewExpectedChanges,
)
from perfci.service.pulls.expected_changes import save_expected_changes
from perfci.store.incidents import expected_changes_and_muted_benchmarks
from perfci.verdicts.expected_change import ExpectedChange, MergedExpectedChange
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply

EXPECTED_CHANGES_RULE = f"{PROJECT_RULE}/expected-changes"


def list_expected_changes(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        records = expected_changes_and_muted_benchmarks.list_expected_changes(
            tx, call.required_project.id, before=pagination.parse_cursor(query.cursor), limit=query.limit + 1
        )
    return pagination.build_page_reply(
        ExpectedChangePage, records, query.limit, lambda record: record.id, _build_expected_change_payload
    )


def add_expected_changes(call: Call) -> Reply:
    request: NewExpectedChanges = call.body
    if call.audit_context.actor.grant is not None and (
        problem := explain_expected_change_refusal(call.audit_context.actor.grant, request.commit)
    ):
        raise AccessDenied(403, problem)
    changes = [
        MergedExpectedChange(
            request.commit,
            ExpectedChange(item.match, item.relative_change, item.reason),
            request.source,
            request.merged_at,
        )
        for item in request.items
    ]
    added = call.group_commit.submit(
        lambda tx: save_expected_changes(tx, call.required_project, changes, call.audit_context)
    )
    return Reply(AddedExpectedChanges(added=added))


def _build_expected_change_payload(
    item: expected_changes_and_muted_benchmarks.ExpectedChangeListItem,
) -> ExpectedChangeShape:
    record = item.record
    return ExpectedChangeShape(
        commit=record.sha,
        match=record.match,
        relative_change=record.change,
        reason=record.reason,
        source=record.source,
        merged_at=record.merged_at,
        recorded_by=item.recorded_by,
        recorded_at=item.recorded_at,
    )


OPERATIONS = (
    Operation(
        "list_expected_changes",
        "GET",
        EXPECTED_CHANGES_RULE,
        AccessRequirement.READ,
        list_expected_changes,
        "Expected changes of commits on the main branch, newest first",
        query=PageQuery,
        answers={200: ExpectedChangePage},
        etag=True,
    ),
    Operation(
        "add_expected_changes",
        "POST",
        EXPECTED_CHANGES_RULE,
        AccessRequirement.WRITE_RESULTS,
        add_expected_changes,
        "Record the changes expected of a commit; idempotent",
        body=NewExpectedChanges,
        answers={200: AddedExpectedChanges},
    ),
)
