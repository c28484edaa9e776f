"""Verdicts: listed, and one with the samples it rests on."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import verdicts_and_expected_changes as shapes
from perfci.report.serializers import serialize_verdict
from perfci.store.column_conversions import series_identity
from perfci.store.queries import paged_lists
from perfci.store.queries.measured_samples import load_evidence_processes
from perfci.store.queries.paged_lists import SeriesListItem, VerdictFilter
from perfci.store.queries.query_records import MeasuredProcess, VerdictRecord
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.operations.series import build_series_payload, require_series
from perfci_web.api.problem_details import ProblemError


def list_verdicts(call: Call) -> Reply:
    query: shapes.VerdictQuery = call.query
    verdict_filter = VerdictFilter(
        base=query.base,
        head=query.head,
        kind=query.verdict or "",
        stage=query.stage or "",
        series_id=require_series(call, query.series).id if query.series else None,
        current_only=not query.superseded,
    )
    with call.store.read() as tx:
        records = paged_lists.load_verdicts_page(
            tx,
            call.required_project.id,
            verdict_filter,
            before=pagination.parse_cursor(query.cursor),
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        shapes.VerdictPage,
        records,
        query.limit,
        lambda record: record.id,
        lambda record: build_verdict_payload(call, record),
    )


def get_verdict(call: Call) -> Reply:
    with call.store.read() as tx:
        record = paged_lists.find_verdict(tx, call.required_project.id, call.path["verdict"])
        if record is None:
            raise ProblemError("not-found", "There is no verdict of this number here.")
        verdict = record.verdict
        processes = load_evidence_processes(tx, verdict.evidence, verdict.series)
    fields = build_verdict_payload(call, record).model_dump()
    fields["processes"] = [_build_evidence_payload(process) for process in processes]
    return Reply(shapes.VerdictDetailShape.model_validate(fields))


def build_verdict_payload(call: Call, record: VerdictRecord) -> shapes.VerdictShape:
    series = record.verdict.series
    item = SeriesListItem(0, series_identity(call.required_project.slug, series), series)
    fields = serialize_verdict(record.verdict) | {
        "series": build_series_payload(item),
        "id": record.id,
        "session": record.session_uid,
        "created_at": record.created_at,
        "superseded_by": record.superseded_by,
    }
    return shapes.VerdictShape.model_validate(fields)


def _build_evidence_payload(measured_process: MeasuredProcess) -> shapes.VerdictProcessShape:
    process = measured_process.process
    return shapes.VerdictProcessShape(
        id=measured_process.id,
        commit=measured_process.sha,
        role=process.role.value,
        status=process.status.value,
        pair=process.pair,
        clock=process.clock.value,
        samples=process.samples,
        flags=process.flags,
        reason=process.reason,
    )


OPERATIONS = (
    Operation(
        "list_verdicts",
        "GET",
        f"{PROJECT_RULE}/verdicts",
        AccessRequirement.READ,
        list_verdicts,
        "Verdicts, newest first",
        query=shapes.VerdictQuery,
        answers={200: shapes.VerdictPage},
        etag=True,
    ),
    Operation(
        "get_verdict",
        "GET",
        f"{PROJECT_RULE}/verdicts/<number:verdict>",
        AccessRequirement.READ,
        get_verdict,
        "One verdict with the samples it rests on",
        answers={200: shapes.VerdictDetailShape},
        etag=True,
    ),
)
