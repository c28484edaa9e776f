"""Write the answer of a bisect to the incidents that it was ordered for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.net.api_schemas.measurement_orders import BisectShape
from perfci.service.audit_context import SYSTEM_ACTOR, AuditContext
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.triage import update_incident
from perfci.service.orders.order_text import describe_bisect
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.incidents.incident_store import find_incidents_by_number
from perfci.store.jobs.measurement_orders import MeasurementOrder
from perfci.store.projects import Project

UNTOLD_STATES = (IncidentState.NEW, IncidentState.INVESTIGATING)
"""States that become *culprit found* when a commit is named; what a person answered stays."""


def record_bisect_answer(
    tx: Transaction,
    context: AuditContext,
    project: Project,
    order: MeasurementOrder,
    detail: Mapping[str, Any] | None,
) -> None:
    """Name the culprit in each incident of the order, or note the smallest range.

    A culprit that is known already stays: the answer is then a note beside it.
    """
    fields = (detail or {}).get("bisect")
    numbers = {request.incident for request in order.requests if request.incident is not None}
    if fields is None or not numbers:
        return
    bisect = BisectShape.model_validate(fields)
    as_perfci = replace(context, actor=replace(context.actor, name=SYSTEM_ACTOR))
    for incident in find_incidents_by_number(tx, project.id, numbers).values():
        update = _build_update(incident, order, bisect)
        update_incident(tx, project, incident.number, incident.revision, update, as_perfci)


def _build_update(incident: IncidentRecord, order: MeasurementOrder, bisect: BisectShape) -> IncidentUpdate:
    text = f"Bisect, order {order.id}: {describe_bisect(bisect)}"
    is_named = bisect.outcome == "named" and bisect.commit is not None
    if not is_named or incident.culprit_sha or incident.state not in UNTOLD_STATES:
        return IncidentUpdate(note=text)
    assert bisect.commit is not None
    return IncidentUpdate(state=IncidentState.CULPRIT_FOUND, reason=text, culprit_sha=bisect.commit)
