"""What other tools get, and what of theirs waits for a unit."""

from __future__ import annotations

from sqlalchemy.orm import Session

from perfci.auth.permissions import Need
from perfci.net.shapes import Paged
from perfci.net.shapes.unresolved_results import Meaning, QuarantinedPage, QuarantinedShape, Resolved
from perfci.service.uploads.export_history import export
from perfci.service.uploads.unresolved_units import resolve
from perfci.store.access import audit_log
from perfci.store.projects import touch
from perfci.store.queries import unresolved_results
from perfci.store.queries.unresolved_results import Answer, QuarantinedRecord
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation, Stream
from perfci_web.api.problems import Declined

P = "/projects/<project:project>"

EXPORTS = {
    "export_csv": ("csv", "export.csv", "text/csv; charset=utf-8"),
    "export_runs": ("perfci", "export.json", "application/jsonl"),
    "export_pytorch": ("pytorch", "export.pytorch.json", "application/json"),
    "export_asv": ("asv", "export.asv.tar", "application/x-tar"),
}
"""Operation, format, end of the address, content type."""


def list_quarantined(call: Call) -> Reply:
    asked: Paged = call.query
    with call.store.read() as tx:
        found = unresolved_results.waiting(
            tx, call.the_project.id, after=pagination.read(asked.cursor), limit=asked.limit + 1
        )
    items, following = pagination.page(found, asked.limit, lambda one: one.id)
    return Reply(QuarantinedPage(items=tuple(map(_shape, items)), next=following))


def resolve_quarantined(call: Call) -> Reply:
    said: Meaning = call.body
    project = call.the_project

    def write(tx: Session) -> Resolved:
        record = unresolved_results.one(tx, project.id, call.path["number"])
        if record is None:
            raise Declined("not-found", "There is no quarantined result of this number here.")
        answer = Answer(said.unit, said.direction)
        done = resolve(tx, project.id, record.format, record.metric, answer, call.now)
        detail = {"format": record.format, "unit": said.unit, "direction": said.direction, "resolved": done}
        audit_log.record(
            tx, call.actor.name, "result.resolve", record.metric,
            at=call.now, project_id=project.id, detail=detail, request_id=call.request_id,
        )  # fmt: skip
        touch(tx, [project.id])
        return Resolved(resolved=done)

    return Reply(call.group.submit(write))


def export_project(call: Call, operation: str) -> Reply:
    """What a format cannot say its documentation lists: a stream has no place to say it."""
    format, _, content_type = EXPORTS[operation]
    chunks = export(call.store, call.the_project.slug, format, lambda _: None)
    return Reply(chunks, content_type=content_type, headers={"Content-Disposition": "attachment"})


def _exporter(operation: str) -> Operation:
    format, address, content_type = EXPORTS[operation]
    return Operation(
        operation, "GET", f"{P}/{address}", Need.READ, lambda call: export_project(call, operation),
        f"All histories as {format}", answers={200: Stream(content_type)}, etag=True,
    )  # fmt: skip


def _shape(record: QuarantinedRecord) -> QuarantinedShape:
    return QuarantinedShape(
        id=record.id,
        run=record.run_key,
        format=record.format,
        metric=record.metric,
        benchmark=record.document["result"]["benchmark"],
        reason=record.reason,
        created_at=record.created_at,
        found=record.document["found"],
    )


OPERATIONS = (
    *map(_exporter, EXPORTS),
    Operation(
        "list_quarantined", "GET", f"{P}/quarantine/results", Need.READ, list_quarantined,
        "Results whose unit or direction nobody knows", query=Paged, answers={200: QuarantinedPage}, etag=True,
    ),
    Operation(
        "resolve_quarantined", "POST", f"{P}/quarantine/results/<number:number>/resolve", Need.TRIAGE,
        resolve_quarantined, "Say what a metric means: all its results are judged", body=Meaning,
        answers={200: Resolved},
    ),
)  # fmt: skip
