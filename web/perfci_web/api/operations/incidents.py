"""Incidents: what there is, what became of them, and what people decide."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.model import IncidentState
from perfci.net.shapes import incidents as shapes
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.alert_quality import compute_alert_quality
from perfci.service.incidents.mute_benchmarks import mute_benchmark
from perfci.service.incidents.serialize_incidents import (
    load_incident_detail,
    serialize_event,
    serialize_impact,
    serialize_incident,
    serialize_incident_detail,
)
from perfci.store.incidents import incident_store
from perfci.store.incidents.impact import list_impacts
from perfci.store.incidents.mutes import load_mutes
from perfci.store.incidents.records import IncidentRecord
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import ProblemError

T = TypeVar("T")

PROJECT_RULE = "/projects/<project:project>"
INCIDENT_RULE = f"{PROJECT_RULE}/incidents/<int(max=2147483647):number>"


def list_incidents(call: Call) -> Reply:
    asked: shapes.IncidentQuery = call.query
    with call.store.read() as tx:
        found = incident_store.list_incidents(
            tx,
            call.required_project.id,
            states=[IncidentState(asked.state)] if asked.state else [],
            kinds=[asked.kind] if asked.kind else [],
            assignee=asked.assignee,
            commit=asked.commit,
            before=pagination.parse_cursor(asked.cursor) or None,
            limit=asked.limit + 1,
        )
    items, following = pagination.cut_page(found, asked.limit, lambda one: one.number)
    return Reply(shapes.IncidentPage(items=tuple(incident_shape(one) for one in items), next=following))


def get_incident(call: Call) -> Reply:
    require_incident(call)
    with call.store.read() as tx:
        found = load_incident_detail(tx, call.required_project, call.path["number"])
    return Reply(
        shapes.IncidentDetailShape(**serialize_incident_detail(call.required_project, found)),
        headers={"ETag": f'"{found.record.revision}"'},
    )


def list_events(call: Call) -> Reply:
    record = require_incident(call)
    with call.store.read() as tx:
        found = incident_store.load_events(tx, record.id)
    return Reply(
        shapes.IncidentEventPage(
            items=tuple(shapes.IncidentEventShape(**serialize_event(one)) for one in found)
        )
    )


def list_impact(call: Call) -> Reply:
    asked: shapes.ImpactQuery = call.query
    with call.store.read() as tx:
        lines, last = list_impacts(
            tx,
            call.required_project.id,
            commit=asked.commit,
            worse=asked.effect == "worse" if asked.effect else None,
            before=pagination.parse_cursor(asked.cursor) or None,
            limit=asked.limit,
        )
    following = pagination.format_cursor(last) if last is not None else None
    items = tuple(shapes.CommitImpactShape(**serialize_impact(one)) for one in lines)
    return Reply(shapes.CommitImpactPage(items=items, next=following))


def get_alert_quality(call: Call) -> Reply:
    with call.store.read() as tx:
        found = compute_alert_quality(tx, call.required_project, call.now)
    noisy = tuple(
        shapes.NoisyBenchmarkShape(
            benchmark=one.benchmark, judged=one.judged, invalid=one.invalid, rate=one.rate
        )
        for one in found.noisy
    )
    names = [name for name in shapes.AlertQualityShape.model_fields if name != "noisy"]
    return Reply(
        shapes.AlertQualityShape(noisy_benchmarks=noisy, **{name: getattr(found, name) for name in names})
    )


def list_muted_benchmarks(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(_muted_page(tx, call))


def set_muted_benchmark(call: Call) -> Reply:
    asked: shapes.MuteChange = call.body
    by = AuditContext(call.actor, call.now, call.request_id)

    def write(tx: Session) -> shapes.MutedBenchmarkPage:
        mute_benchmark(
            tx, call.required_project, asked.benchmark, asked.metric, by, days=asked.days, reason=asked.reason
        )
        return _muted_page(tx, call)

    return Reply(call.group_commit.submit(write))


def _muted_page(tx: Session, call: Call) -> shapes.MutedBenchmarkPage:
    names = shapes.MutedBenchmarkShape.model_fields
    found = load_mutes(tx, call.required_project.id, call.now)
    return shapes.MutedBenchmarkPage(
        items=tuple(
            shapes.MutedBenchmarkShape(**{name: getattr(one, name) for name in names}) for one in found
        )
    )


def require_incident(call: Call) -> IncidentRecord:
    with call.store.read() as tx:
        record = incident_store.find_incident(tx, call.required_project.id, call.path["number"])
    if record is None:
        raise ProblemError("not-found", "There is no incident of this number here.")
    return record


def incident_shape(record: IncidentRecord) -> shapes.IncidentShape:
    return shapes.IncidentShape(**serialize_incident(record))


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
        list_events,
        "What became of one, oldest first",
        answers={200: shapes.IncidentEventPage},
    ),
    Operation(
        "incident_health",
        "GET",
        f"{PROJECT_RULE}/incidents/health",
        AccessRequirement.READ,
        get_alert_quality,
        "How well the alarms serve",
        answers={200: shapes.AlertQualityShape},
    ),
    Operation(
        "get_ledger",
        "GET",
        f"{PROJECT_RULE}/ledger",
        AccessRequirement.READ,
        list_impact,
        "Which commit moved which series by how much",
        query=shapes.ImpactQuery,
        answers={200: shapes.CommitImpactPage},
        etag=True,
    ),
    Operation(
        "list_quarantined_benchmarks",
        "GET",
        f"{PROJECT_RULE}/quarantine/benchmarks",
        AccessRequirement.READ,
        list_muted_benchmarks,
        "Benchmarks that are watched and told to nobody",
        answers={200: shapes.MutedBenchmarkPage},
    ),
    Operation(
        "set_quarantined_benchmark",
        "PUT",
        f"{PROJECT_RULE}/quarantine/benchmarks",
        AccessRequirement.TRIAGE,
        set_muted_benchmark,
        "Put a benchmark into quarantine, or let it out",
        body=shapes.MuteChange,
        answers={200: shapes.MutedBenchmarkPage},
    ),
)
