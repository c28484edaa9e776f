"""What other tools get, and what of theirs waits for a unit."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.net.shapes import PageQuery
from perfci.net.shapes.unresolved_results import (
    MetricMeaning,
    ResolvedResults,
    UnresolvedResultPage,
    UnresolvedResultShape,
)
from perfci.service.uploads.export_history import export_history
from perfci.service.uploads.unresolved_units import resolve_unit
from perfci.store.access import audit_log
from perfci.store.projects import mark_changed
from perfci.store.queries import unresolved_results
from perfci.store.queries.unresolved_results import UnitAnswer, UnresolvedResult
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation, StreamedAnswer
from perfci_web.api.problems import ProblemError

PROJECT_RULE = "/projects/<project:project>"

EXPORTS = {
    "export_csv": ("csv", "export.csv", "text/csv; charset=utf-8"),
    "export_runs": ("perfci", "export.json", "application/jsonl"),
    "export_pytorch": ("pytorch", "export.pytorch.json", "application/json"),
    "export_asv": ("asv", "export.asv.tar", "application/x-tar"),
}
"""Operation, format, end of the address, content type."""


def list_unresolved_results(call: Call) -> Reply:
    asked: PageQuery = call.query
    with call.store.read() as tx:
        found = unresolved_results.list_unresolved_results(
            tx, call.required_project.id, after=pagination.parse_cursor(asked.cursor), limit=asked.limit + 1
        )
    items, following = pagination.cut_page(found, asked.limit, lambda one: one.id)
    return Reply(UnresolvedResultPage(items=tuple(map(_unresolved_shape, items)), next=following))


def resolve_result(call: Call) -> Reply:
    said: MetricMeaning = call.body
    project = call.required_project

    def write(tx: Session) -> ResolvedResults:
        record = unresolved_results.find_unresolved_result(tx, project.id, call.path["number"])
        if record is None:
            raise ProblemError("not-found", "There is no quarantined result of this number here.")
        answer = UnitAnswer(said.unit, said.direction)
        done = resolve_unit(tx, project.id, record.format, record.metric, answer, call.now)
        detail = {"format": record.format, "unit": said.unit, "direction": said.direction, "resolved": done}
        audit_log.add_entry(
            tx,
            call.actor.name,
            "result.resolve",
            record.metric,
            at=call.now,
            project_id=project.id,
            detail=detail,
            request_id=call.request_id,
        )
        mark_changed(tx, [project.id])
        return ResolvedResults(resolved=done)

    return Reply(call.group_commit.submit(write))


def export_project(call: Call, operation: str) -> Reply:
    """What a format cannot say its documentation lists: a stream has no place to say it."""
    format, _, content_type = EXPORTS[operation]
    chunks = export_history(call.store, call.required_project.slug, format, lambda _: None)
    return Reply(chunks, content_type=content_type, headers={"Content-Disposition": "attachment"})


def _export_operation(operation: str) -> Operation:
    format, address, content_type = EXPORTS[operation]
    return Operation(
        operation,
        "GET",
        f"{PROJECT_RULE}/{address}",
        AccessRequirement.READ,
        lambda call: export_project(call, operation),
        f"All histories as {format}",
        answers={200: StreamedAnswer(content_type)},
        etag=True,
    )


def _unresolved_shape(record: UnresolvedResult) -> UnresolvedResultShape:
    return UnresolvedResultShape(
        id=record.id,
        run=record.run_key,
        format=record.format,
        metric=record.metric,
        benchmark=record.document["result"]["benchmark"],
        reason=record.reason,
        created_at=record.created_at,
        raw_result=record.document["found"],
    )


OPERATIONS = (
    *map(_export_operation, EXPORTS),
    Operation(
        "list_quarantined",
        "GET",
        f"{PROJECT_RULE}/quarantine/results",
        AccessRequirement.READ,
        list_unresolved_results,
        "Results whose unit or direction nobody knows",
        query=PageQuery,
        answers={200: UnresolvedResultPage},
        etag=True,
    ),
    Operation(
        "resolve_quarantined",
        "POST",
        f"{PROJECT_RULE}/quarantine/results/<number:number>/resolve",
        AccessRequirement.TRIAGE,
        resolve_result,
        "Say what a metric means: all its results are judged",
        body=MetricMeaning,
        answers={200: ResolvedResults},
    ),
)
