"""The impact of commits: which one changed which series, by how much."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import commit_impacts as shapes
from perfci.service.incidents.serialize_incidents import serialize_commit_impact
from perfci.store.incidents.commit_impacts_page import load_commit_impacts_page
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply


def list_commit_impacts(call: Call) -> Reply:
    query: shapes.ImpactQuery = call.query
    with call.store.read() as tx:
        impacts, last_id = load_commit_impacts_page(
            tx,
            call.required_project.id,
            commit=query.commit,
            worse=query.effect == "worse" if query.effect else None,
            before=pagination.parse_cursor(query.cursor) or None,
            limit=query.limit,
        )
    next_cursor = str(last_id) if last_id is not None else None
    items = tuple(shapes.CommitImpactShape(**serialize_commit_impact(impact)) for impact in impacts)
    return Reply(shapes.CommitImpactPage(items=items, next=next_cursor))


OPERATIONS = (
    Operation(
        "list_impact",
        "GET",
        f"{PROJECT_RULE}/impact",
        AccessRequirement.READ,
        list_commit_impacts,
        "Which commit changed which series, by how much",
        query=shapes.ImpactQuery,
        answers={200: shapes.CommitImpactPage},
        etag=True,
    ),
)
