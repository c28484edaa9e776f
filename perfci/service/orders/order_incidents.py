"""Order a bisect or a backfill of an incident, which says what is searched and where."""

from __future__ import annotations

import math
import re

from sqlalchemy.orm import Session as Transaction

from perfci.config import Settings
from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import IncidentOrder
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.load_incidents import IncidentDetail, load_incident_detail
from perfci.service.orders.bench_expression import build_bench_expression
from perfci.service.orders.check_order_content import BACKFILL, BISECT
from perfci.service.orders.choose_engine import choose_order_engine, require_order_engine
from perfci.service.orders.place_orders import place_order
from perfci.store.jobs.measurement_orders import MeasurementOrder, OrderContent
from perfci.store.projects import Project


def place_incident_order(
    tx: Transaction,
    context: AuditContext,
    settings: Settings,
    project: Project,
    number: int,
    kind: str,
    wanted: IncidentOrder,
    source: str,
) -> MeasurementOrder:
    """Order the bisect of what moved most in an incident, or the backfill of its range."""
    engine = wanted.engine or choose_order_engine(tx, settings, project, kind)
    content = build_incident_order(load_incident_detail(tx, project, number), kind, wanted, engine)
    require_order_engine(tx, settings, project, engine, kind)
    return place_order(tx, context, project, content, source, incident=number)


def build_incident_order(
    incident: IncidentDetail, kind: str, wanted: IncidentOrder, engine: str
) -> OrderContent:
    """Build the content: a bisect has the range of the series that moved most, a backfill that of all."""
    number = incident.record.number
    members = [row for row in incident.members if row[0].dropped_at is None]
    if not members or not incident.record.last_good:
        raise PerfciError(f"Incident {number} is of no series that moved: there is no range to measure.")
    if kind == BACKFILL:
        if wanted.budget_s is not None:
            raise PerfciError("A budget of time belongs to a bisect; a backfill is bounded by processes.")
        return OrderContent(
            BACKFILL,
            incident.record.last_good,
            incident.record.commit,
            build_bench_expression(series.cell for _, series in members),
            engine=engine,
            max_processes=wanted.max_processes,
        )
    member, series = max(members, key=lambda row: abs(math.log1p(row[0].relative_change)))
    return OrderContent(
        BISECT,
        member.last_good,
        member.commit,
        f"^{re.escape(series.cell)}$",
        engine=engine,
        metric=series.metric.name,
        max_processes=wanted.max_processes,
        budget_s=wanted.budget_s,
    )
