"""Incidents: what there is, what became of them, and what people decide."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.auth.permissions import Need
from perfci.model import IncidentState
from perfci.net.shapes import incidents as shapes
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.alert_quality import health
from perfci.service.incidents.mute_benchmarks import quarantine
from perfci.service.incidents.serialize_incidents import (
    event_fields,
    incident_fields,
    ledger_fields,
    whole,
    whole_fields,
)
from perfci.store.incidents import incident_store
from perfci.store.incidents.incident_members import ledger
from perfci.store.incidents.mutes import suspensions
from perfci.store.incidents.records import IncidentRecord
from perfci_web.api import pagination
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import Declined

T = TypeVar("T")

P = "/projects/<project:project>"
ONE = f"{P}/incidents/<int(max=2147483647):number>"


def list_incidents(call: Call) -> Reply:
    asked: shapes.IncidentFilter = call.query
    with call.store.read() as tx:
        found = incident_store.listed(
            tx,
            call.the_project.id,
            states=[IncidentState(asked.state)] if asked.state else [],
            kinds=[asked.kind] if asked.kind else [],
            assignee=asked.assignee,
            commit=asked.commit,
            before=pagination.read(asked.cursor) or None,
            limit=asked.limit + 1,
        )
    items, following = pagination.page(found, asked.limit, lambda one: one.number)
    return Reply(shapes.IncidentPage(items=tuple(shape_of(one) for one in items), next=following))


def get_incident(call: Call) -> Reply:
    incident_of(call)
    with call.store.read() as tx:
        found = whole(tx, call.the_project, call.path["number"])
    return Reply(
        shapes.WholeIncident(**whole_fields(call.the_project, found)), headers={"ETag": f'"{found.record.revision}"'}
    )


def list_events(call: Call) -> Reply:
    record = incident_of(call)
    with call.store.read() as tx:
        found = incident_store.events(tx, record.id)
    return Reply(shapes.EventPage(items=tuple(shapes.EventShape(**event_fields(one)) for one in found)))


def get_ledger(call: Call) -> Reply:
    asked: shapes.LedgerFilter = call.query
    with call.store.read() as tx:
        lines, last = ledger(
            tx,
            call.the_project.id,
            commit=asked.commit,
            worse=asked.moved == "worse" if asked.moved else None,
            before=pagination.read(asked.cursor) or None,
            limit=asked.limit,
        )
    following = pagination.written(last) if last is not None else None
    items = tuple(shapes.LedgerShape(**ledger_fields(one)) for one in lines)
    return Reply(shapes.LedgerPage(items=items, next=following))


def get_health(call: Call) -> Reply:
    with call.store.read() as tx:
        found = health(tx, call.the_project, call.now)
    noisy = tuple(
        shapes.NoisyShape(benchmark=one.benchmark, judged=one.judged, invalid=one.invalid, rate=one.rate)
        for one in found.noisy
    )
    names = [name for name in shapes.HealthShape.model_fields if name != "noisy"]
    return Reply(shapes.HealthShape(noisy=noisy, **{name: getattr(found, name) for name in names}))


def list_suspensions(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(_suspensions(tx, call))


def set_suspension(call: Call) -> Reply:
    asked: shapes.NewSuspension = call.body
    by = AuditContext(call.actor, call.now, call.request_id)

    def write(tx: Session) -> shapes.SuspensionPage:
        quarantine(tx, call.the_project, asked.benchmark, asked.metric, by, days=asked.days, reason=asked.reason)
        return _suspensions(tx, call)

    return Reply(call.group.submit(write))


def _suspensions(tx: Session, call: Call) -> shapes.SuspensionPage:
    names = shapes.SuspensionShape.model_fields
    found = suspensions(tx, call.the_project.id, call.now)
    return shapes.SuspensionPage(
        items=tuple(shapes.SuspensionShape(**{name: getattr(one, name) for name in names}) for one in found)
    )


def incident_of(call: Call) -> IncidentRecord:
    with call.store.read() as tx:
        record = incident_store.numbered(tx, call.the_project.id, call.path["number"])
    if record is None:
        raise Declined("not-found", "There is no incident of this number here.")
    return record


def shape_of(record: IncidentRecord) -> shapes.IncidentShape:
    return shapes.IncidentShape(**incident_fields(record))


OPERATIONS = (
    Operation(
        "list_incidents", "GET", f"{P}/incidents", Need.READ, list_incidents, "Incidents, newest number first",
        query=shapes.IncidentFilter, answers={200: shapes.IncidentPage}, etag=True,
    ),
    Operation(
        "get_incident", "GET", ONE, Need.READ, get_incident, "One incident with its series and its history",
        answers={200: shapes.WholeIncident},
    ),
    Operation(
        "list_incident_events", "GET", f"{ONE}/events", Need.READ, list_events, "What became of one, oldest first",
        answers={200: shapes.EventPage},
    ),
    Operation(
        "incident_health", "GET", f"{P}/incidents/health", Need.READ, get_health, "How well the alarms serve",
        answers={200: shapes.HealthShape},
    ),
    Operation(
        "get_ledger", "GET", f"{P}/ledger", Need.READ, get_ledger, "Which commit moved which series by how much",
        query=shapes.LedgerFilter, answers={200: shapes.LedgerPage}, etag=True,
    ),
    Operation(
        "list_quarantined_benchmarks", "GET", f"{P}/quarantine/benchmarks", Need.READ, list_suspensions,
        "Benchmarks that are watched and told to nobody", answers={200: shapes.SuspensionPage},
    ),
    Operation(
        "set_quarantined_benchmark", "PUT", f"{P}/quarantine/benchmarks", Need.TRIAGE, set_suspension,
        "Put a benchmark into quarantine, or let it out", body=shapes.NewSuspension,
        answers={200: shapes.SuspensionPage},
    ),
)  # fmt: skip
