"""Series that somebody archived: they leave lists, counts and incidents, their results stay."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import PageQuery
from perfci.net.api_schemas import archived_series as shapes
from perfci.service.archive_series import ArchiveTarget, serialize_archived_series, set_archived
from perfci.store.series_archive import list_archived_series
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply

ARCHIVED_RULE = f"{PROJECT_RULE}/archived-series"


def list_archived(call: Call) -> Reply:
    query: PageQuery = call.query
    with call.store.read() as tx:
        records = list_archived_series(
            tx,
            call.required_project.id,
            after=pagination.parse_cursor(query.cursor),
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        shapes.ArchivedSeriesPage,
        records,
        query.limit,
        lambda record: record.id,
        serialize_archived_series,
    )


def change_archived(call: Call) -> Reply:
    change: shapes.ArchiveChange = call.body
    context, project = call.audit_context, call.required_project
    target = ArchiveTarget(change.series or "", change.benchmark or "", change.machine or "")
    reason = change.reason if change.archived else None
    changed = call.group_commit.submit(lambda tx: set_archived(tx, context, project, target, reason))
    return Reply(shapes.ArchiveResult(series=changed))


OPERATIONS = (
    Operation(
        "list_archived_series",
        "GET",
        ARCHIVED_RULE,
        AccessRequirement.READ,
        list_archived,
        "Series that somebody archived, who did and why",
        query=PageQuery,
        answers={200: shapes.ArchivedSeriesPage},
    ),
    Operation(
        "set_archived_series",
        "PUT",
        ARCHIVED_RULE,
        AccessRequirement.TRIAGE,
        change_archived,
        "Archive a series, or all of a benchmark or machine, or bring them back: their results stay",
        body=shapes.ArchiveChange,
        answers={200: shapes.ArchiveResult},
    ),
)
