"""Routes of measurement orders: the list as page, JSON and CSV, the button that orders, and cancelling."""

from __future__ import annotations

from flask import Blueprint, Response, g, jsonify, redirect, render_template, request
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import IncidentOrder
from perfci.net.url_segments import encode_segment
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.load_incidents import load_incident_detail
from perfci.service.orders.bench_expression import build_bench_expression
from perfci.service.orders.check_order_content import BACKFILL, BISECT, COMPARE
from perfci.service.orders.choose_engine import choose_order_engine
from perfci.service.orders.order_incidents import place_incident_order
from perfci.service.orders.place_orders import cancel_order, place_order
from perfci.store.jobs.measurement_orders import (
    CLOSED_STATES,
    OPEN_STATES,
    OrderContent,
    find_order,
    list_orders,
)
from perfci.store.projects import Project, find_project
from perfci.store.queries.paged_lists import find_series_by_identity
from perfci_web.application_context import current_actor, may_triage, web_context
from perfci_web.measurement_orders.view_model import (
    CSV_COLUMNS,
    OrdersView,
    build_csv_row,
    build_orders_view,
    serialize_orders_view,
)
from perfci_web.url_lookups import build_project_links, require_project
from perfci_web.view_parts.csv_response import build_csv_response

blueprint = Blueprint("measurement_orders", __name__)

ORDERS_PATH = "/<project:project>/orders"
PAGE_SIZE = 50
MAX_NUMBER = 2**31 - 1
INCIDENT_PATH = f"/<project:project>/incidents/<int(max={MAX_NUMBER}):number>"


@blueprint.get(ORDERS_PATH)
def orders_page(project: str) -> str:
    return _render_page(project)


@blueprint.get(f"{ORDERS_PATH}.json")
def orders_json(project: str) -> Response:
    page = _load_view(project)
    return jsonify({"project": project} | serialize_orders_view(page))


@blueprint.get(f"{ORDERS_PATH}.csv")
def orders_csv(project: str) -> Response:
    """The orders of the page, the open ones first."""
    page = _load_view(project)
    rows = [build_csv_row(row) for row in (*page.open_orders, *page.closed_orders)]
    return build_csv_response(CSV_COLUMNS, rows, f"{encode_segment(project)}-orders.csv")


@blueprint.post(ORDERS_PATH)
def place_ordered_pairs(project: str) -> BaseResponse | tuple[str, int]:
    """Order pairs of the commits of a change, of the cells that moved there."""
    form, context, settings = request.form, _build_audit_context(), web_context().settings
    series, incident = form.get("series", ""), form.get("incident", "")

    def write(tx: Session) -> None:
        record = _find_project(tx, project)
        number = _parse_number(incident) if incident else None
        cells = _load_cells(tx, record, series, number)
        content = OrderContent(
            COMPARE,
            form.get("base", ""),
            form.get("head", ""),
            build_bench_expression(cells),
            engine=choose_order_engine(tx, settings, record),
        )
        place_order(tx, context, record, content, "page", incident=number, series=series)

    try:
        web_context().group_commit.submit(write)
    except PerfciError as error:
        return _render_page(project, str(error)), 409
    return redirect(build_project_links(project).orders(), 303)


@blueprint.post(f"{INCIDENT_PATH}/bisect")
def bisect_incident(project: str, number: int) -> BaseResponse | tuple[str, int]:
    return _order_of_incident(project, number, BISECT)


@blueprint.post(f"{INCIDENT_PATH}/backfill")
def backfill_incident(project: str, number: int) -> BaseResponse | tuple[str, int]:
    return _order_of_incident(project, number, BACKFILL)


def _order_of_incident(project: str, number: int, kind: str) -> BaseResponse | tuple[str, int]:
    """Order the bisect or the backfill of an incident."""
    context, settings = _build_audit_context(), web_context().settings

    def write(tx: Session) -> None:
        record = _find_project(tx, project)
        place_incident_order(tx, context, settings, record, number, kind, IncidentOrder(), "page")

    try:
        web_context().group_commit.submit(write)
    except PerfciError as error:
        return _render_page(project, str(error)), 409
    return redirect(build_project_links(project).incident(number), 303)


@blueprint.post(f"{ORDERS_PATH}/<int(max={MAX_NUMBER}):number>/cancel")
def cancel_one_order(project: str, number: int) -> BaseResponse | tuple[str, int]:
    context = _build_audit_context()

    def write(tx: Session) -> None:
        order = find_order(tx, _find_project(tx, project).id, number)
        if order is None or not cancel_order(tx, context, order):
            raise PerfciError(f"Order {number} is not open any more.")

    try:
        web_context().group_commit.submit(write)
    except PerfciError as error:
        return _render_page(project, str(error)), 409
    return redirect(build_project_links(project).orders(), 303)


def _load_cells(tx: Session, project: Project, series: str, incident: int | None) -> list[str]:
    """The cells of the series or the incident that the button was shown for, the largest change first."""
    if incident is not None:
        detail = load_incident_detail(tx, project, incident)
        return [member_series.cell for _, member_series in detail.members]
    item = find_series_by_identity(tx, project.id, series)
    if item is None:
        raise PerfciError("There is no series of this id here: go back to its page and load it again.")
    return [item.series.cell]


def _find_project(tx: Session, slug: str) -> Project:
    """Find the project in the thread that writes, where there is no request."""
    project = find_project(tx, slug)
    assert project is not None  # page_access checked it before the view ran
    return project


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_NUMBER):
        raise PerfciError("The number of an incident was expected.")
    return int(text)


def _build_audit_context() -> AuditContext:
    return AuditContext(current_actor(), web_context().clock(), g.request_id)


def _render_page(project: str, rejected: str = "") -> str:
    page = _load_view(project)
    with web_context().store.read() as tx:
        record = require_project(tx, project)
    return render_template(
        "measurement_orders/orders.html",
        project=project,
        page=page,
        links=build_project_links(project),
        may_change=may_triage(record),
        rejected=rejected,
    )


def _load_view(project: str) -> OrdersView:
    before = request.args.get("before", type=int)
    with web_context().store.read() as tx:
        record = require_project(tx, project)
        open_orders = list_orders(tx, record.id, states=OPEN_STATES)
        closed = list_orders(tx, record.id, states=CLOSED_STATES, before=before, limit=PAGE_SIZE + 1)
    return build_orders_view(open_orders, closed, PAGE_SIZE)
