"""Incidents: the list, one of them with its history, and how good the alerts were."""

from __future__ import annotations

from collections.abc import Iterator

from perfci.auth.permissions import AccessRequirement
from perfci.model import IncidentState
from perfci.net.api_schemas import incidents as shapes
from perfci.service.evidence.export_evidence import export_evidence
from perfci.service.incidents.alert_quality import compute_alert_quality
from perfci.service.incidents.load_incidents import load_incident_detail
from perfci.service.incidents.serialize_incidents import (
    serialize_incident_detail,
    serialize_incident_event,
    serialize_stored_incident,
)
from perfci.store.incidents import incident_lists, incident_store
from perfci.store.incidents.incident_records import DATA_KIND, IncidentRecord
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply, StreamedAnswer
from perfci_web.api.problem_details import ProblemError

INCIDENT_RULE = f"{PROJECT_RULE}/incidents/<int(max=2147483647):number>"


def list_incidents(call: Call) -> Reply:
    query: shapes.IncidentQuery = call.query
    with call.store.read() as tx:
        records = incident_lists.list_incidents(
            tx,
            call.required_project.id,
            states=[IncidentState(query.state)] if query.state else [],
            kinds=[query.kind] if query.kind else [],
            assignee=query.assignee,
            commit=query.commit,
            before=pagination.parse_cursor(query.cursor) or None,
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        shapes.IncidentPage, records, query.limit, lambda record: record.number, build_incident_payload
    )


def get_incident(call: Call) -> Reply:
    require_incident(call)
    with call.store.read() as tx:
        detail = load_incident_detail(tx, call.required_project, call.path["number"])
    return Reply(
        shapes.IncidentDetailShape(**serialize_incident_detail(call.required_project, detail)),
        headers={"ETag": f'"{detail.record.revision}"'},
    )


def list_incident_events(call: Call) -> Reply:
    record = require_incident(call)
    with call.store.read() as tx:
        events = incident_store.load_incident_events(tx, record.id)
    return Reply(
        shapes.IncidentEventPage(
            items=tuple(shapes.IncidentEventShape(**serialize_incident_event(event)) for event in events)
        )
    )


def export_incident_evidence(call: Call) -> Reply:
    """Stream the evidence bundle of an incident; it is built when its first byte is taken."""
    record = require_incident(call)
    if record.kind == DATA_KIND:
        raise ProblemError("not-found", "This incident is about missing data: it has no samples to export.")
    slug = call.required_project.slug

    def build() -> Iterator[bytes]:
        yield export_evidence(call.store, slug, record.number, call.settings)

    disposition = f'attachment; filename="incident-{record.number}.evidence.tar.gz"'
    return Reply(build(), content_type="application/gzip", headers={"Content-Disposition": disposition})


def get_alert_quality(call: Call) -> Reply:
    with call.store.read() as tx:
        quality = compute_alert_quality(tx, call.required_project, call.audit_context.at)
    noisy = tuple(
        shapes.NoisyBenchmarkShape(
            benchmark=noisy.benchmark, judged=noisy.judged, invalid=noisy.invalid, rate=noisy.invalid_rate
        )
        for noisy in quality.noisy
    )
    return Reply(
        shapes.AlertQualityShape(
            open=quality.open,
            overdue=quality.overdue,
            paged=quality.paged,
            judged=quality.judged,
            invalid=quality.invalid,
            false_rate=quality.false_alarm_rate,
            hours_to_triage=quality.hours_to_triage,
            hours_to_close=quality.hours_to_close,
            series_per_incident=quality.series_per_incident,
            noisy_benchmarks=noisy,
        )
    )


def require_incident(call: Call) -> IncidentRecord:
    with call.store.read() as tx:
        record = incident_store.find_incident(tx, call.required_project.id, call.path["number"])
    if record is None:
        raise ProblemError("not-found", "There is no incident of this number here.")
    return record


def build_incident_payload(record: IncidentRecord) -> shapes.IncidentShape:
    return shapes.IncidentShape(**serialize_stored_incident(record))


OPERATIONS = (
    Operation(
        "list_incidents",
        "GET",
        f"{PROJECT_RULE}/incidents",
        AccessRequirement.READ,
        list_incidents,
        "Incidents, newest number first",
        query=shapes.IncidentQuery,
        answers={200: shapes.IncidentPage},
        etag=True,
    ),
    Operation(
        "get_incident",
        "GET",
        INCIDENT_RULE,
        AccessRequirement.READ,
        get_incident,
        "One incident with its series and its history",
        answers={200: shapes.IncidentDetailShape},
    ),
    Operation(
        "list_incident_events",
        "GET",
        f"{INCIDENT_RULE}/events",
        AccessRequirement.READ,
        list_incident_events,
        "The history of an incident, oldest first",
        answers={200: shapes.IncidentEventPage},
    ),
    Operation(
        "export_incident_evidence",
        "GET",
        f"{INCIDENT_RULE}/evidence",
        AccessRequirement.READ,
        export_incident_evidence,
        "All that an incident rests on, which perfci verify computes again",
        answers={200: StreamedAnswer("application/gzip")},
        etag=True,
        is_export=True,
    ),
    Operation(
        "get_alert_quality",
        "GET",
        f"{PROJECT_RULE}/incidents/alert-quality",
        AccessRequirement.READ,
        get_alert_quality,
        "How many alerts were real, and how quickly they were triaged",
        answers={200: shapes.AlertQualityShape},
    ),
)
