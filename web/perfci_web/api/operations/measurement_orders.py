"""Measurement orders: placed and cancelled by people, claimed and closed by workers."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy.orm import Session as Transaction

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas import measurement_orders as shapes
from perfci.service.orders import serve_workers
from perfci.service.orders.carry_out_orders import OrderResult
from perfci.service.orders.check_order_content import BACKFILL, BISECT, build_order_content
from perfci.service.orders.choose_engine import require_order_engine
from perfci.service.orders.order_incidents import place_incident_order
from perfci.service.orders.place_orders import cancel_order, place_order
from perfci.service.orders.select_order_states import select_order_states
from perfci.service.orders.serialize_orders import dump_findings, serialize_order
from perfci.store.incidents.incident_store import find_incident
from perfci.store.jobs.measurement_orders import (
    MeasurementOrder,
    find_order,
    list_orders,
)
from perfci_web.api import pagination
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

ORDERS_RULE = f"{PROJECT_RULE}/orders"
ORDER_RULE = f"{ORDERS_RULE}/<number:number>"
INCIDENT_RULE = f"{PROJECT_RULE}/incidents/<number:number>"


def list_project_orders(call: Call) -> Reply:
    query: shapes.OrderQuery = call.query
    with call.store.read() as tx:
        orders = list_orders(
            tx,
            call.required_project.id,
            states=select_order_states(query.state),
            before=pagination.parse_cursor(query.cursor) or None,
            limit=query.limit + 1,
        )
    return pagination.build_page_reply(
        shapes.OrderPage, orders, query.limit, lambda order: order.id, serialize_order
    )


def get_order(call: Call) -> Reply:
    with call.store.read() as tx:
        return Reply(serialize_order(_require_order(tx, call)))


def place_new_order(call: Call) -> Reply:
    new_order: shapes.NewOrder = call.body
    content = build_order_content(new_order)

    def write(tx: Transaction) -> MeasurementOrder:
        require_order_engine(tx, call.settings, call.required_project, content.engine, content.kind)
        return place_order(
            tx,
            call.audit_context,
            call.required_project,
            content,
            "api",
            incident=new_order.incident,
            series=new_order.series or "",
        )

    order = call.group_commit.submit(write)
    return Reply(serialize_order(order), 201 if len(order.requests) == 1 else 200)


def order_incident_bisect(call: Call) -> Reply:
    return _place_incident_order(call, BISECT)


def order_incident_backfill(call: Call) -> Reply:
    return _place_incident_order(call, BACKFILL)


def _place_incident_order(call: Call, kind: str) -> Reply:
    wanted: shapes.IncidentOrder = call.body
    number = call.path["number"]

    def write(tx: Transaction) -> MeasurementOrder:
        project = call.required_project
        if find_incident(tx, project.id, number) is None:
            raise ProblemError("not-found", "There is no incident of this number here.")
        return place_incident_order(
            tx, call.audit_context, call.settings, project, number, kind, wanted, "api"
        )

    order = call.group_commit.submit(write)
    return Reply(serialize_order(order), 201 if len(order.requests) == 1 else 200)


def cancel_open_order(call: Call) -> Reply:
    def write(tx: Transaction) -> MeasurementOrder:
        order = _require_order(tx, call)
        if not cancel_order(tx, call.audit_context, order):
            raise ProblemError("conflict", f"Order {order.id} is {order.state} already.")
        return _require_order(tx, call)

    return Reply(serialize_order(call.group_commit.submit(write)))


def claim_order(call: Call) -> Reply:
    """Claim an order, or answer 204 where none waits."""
    claim: shapes.OrderClaim = call.body
    _require_worker(call)

    def write(tx: Transaction) -> shapes.ClaimedOrder | None:
        order = serve_workers.claim_order_for_worker(
            tx, call.audit_context, call.required_project, claim.engine, claim.worker
        )
        return None if order is None else serve_workers.build_claimed_order(tx, order)

    return Reply(call.group_commit.submit(write))


def heartbeat_order(call: Call) -> Reply:
    heartbeat: shapes.OrderHeartbeat = call.body
    _require_worker(call)

    def write(tx: Transaction) -> tuple[bool, str] | None:
        return serve_workers.keep_order_for_worker(
            tx,
            call.required_project,
            call.path["number"],
            heartbeat.lease,
            call.audit_context.at,
            heartbeat.progress,
            dump_findings(heartbeat.findings),
        )

    kept = call.group_commit.submit(write)
    if kept is None:
        raise _build_missing_error()
    is_held, state = kept
    return Reply(shapes.OrderLeaseShape(held=is_held, state=state))


def finish_order(call: Call) -> Reply:
    finish: shapes.OrderFinish = call.body
    counts = {str(kind): count for kind, count in finish.result.counts.items()}
    findings = dump_findings(finish.result.findings)
    result = OrderResult(finish.result.verdict, counts, finish.result.sessions, findings)
    return _close(
        call,
        lambda tx: serve_workers.finish_order_of_worker(
            tx, call.audit_context, call.required_project, call.path["number"], finish.lease, result
        ),
    )


def fail_order(call: Call) -> Reply:
    failure: shapes.OrderFailure = call.body
    return _close(
        call,
        lambda tx: serve_workers.fail_order_of_worker(
            tx,
            call.audit_context,
            call.required_project,
            call.path["number"],
            failure.lease,
            failure.problem,
        ),
    )


def release_order(call: Call) -> Reply:
    release: shapes.OrderRelease = call.body
    return _close(
        call,
        lambda tx: serve_workers.release_order_of_worker(
            tx, call.audit_context, call.required_project, call.path["number"], release.lease
        ),
    )


def _close(call: Call, write: Callable[[Transaction], MeasurementOrder | None]) -> Reply:
    _require_worker(call)
    order = call.group_commit.submit(write)
    if order is None:
        raise _build_missing_error()
    return Reply(serialize_order(order))


def _require_worker(call: Call) -> None:
    """Refuse the token of a job: a pull request's code could close orders with what it did not measure."""
    if call.audit_context.actor.grant is not None:
        raise ProblemError("forbidden", serve_workers.JOB_TOKEN_REFUSED)


def _require_order(tx: Transaction, call: Call) -> MeasurementOrder:
    order = find_order(tx, call.required_project.id, call.path["number"])
    if order is None:
        raise _build_missing_error()
    return order


def _build_missing_error() -> ProblemError:
    return ProblemError("not-found", "There is no order of this number here.")


OPERATIONS = (
    Operation(
        "list_orders",
        "GET",
        ORDERS_RULE,
        AccessRequirement.READ,
        list_project_orders,
        "Ordered measurements, newest first",
        query=shapes.OrderQuery,
        answers={200: shapes.OrderPage},
    ),
    Operation(
        "get_order",
        "GET",
        ORDER_RULE,
        AccessRequirement.READ,
        get_order,
        "An ordered measurement: how far it is, or what it came to",
        answers={200: shapes.OrderShape},
    ),
    Operation(
        "place_order",
        "POST",
        ORDERS_RULE,
        AccessRequirement.TRIAGE,
        place_new_order,
        "Order a measurement: 201 new, 200 joined an open order of the same content",
        body=shapes.NewOrder,
        answers={201: shapes.OrderShape, 200: shapes.OrderShape},
    ),
    Operation(
        "bisect_incident",
        "POST",
        f"{INCIDENT_RULE}/bisect",
        AccessRequirement.TRIAGE,
        order_incident_bisect,
        "Order the search for the commit that moved what moved most in an incident",
        body=shapes.IncidentOrder,
        answers={201: shapes.OrderShape, 200: shapes.OrderShape},
    ),
    Operation(
        "backfill_incident",
        "POST",
        f"{INCIDENT_RULE}/backfill",
        AccessRequirement.TRIAGE,
        order_incident_backfill,
        "Order results of the commits of an incident's range that have none",
        body=shapes.IncidentOrder,
        answers={201: shapes.OrderShape, 200: shapes.OrderShape},
    ),
    Operation(
        "cancel_order",
        "POST",
        f"{ORDER_RULE}/cancel",
        AccessRequirement.TRIAGE,
        cancel_open_order,
        "Cancel an open order; a worker that measures it stops at its next heartbeat",
        answers={200: shapes.OrderShape},
    ),
    Operation(
        "claim_order",
        "POST",
        f"{ORDERS_RULE}/claim",
        AccessRequirement.WRITE_RESULTS,
        claim_order,
        "Claim the oldest order that waits, for a worker: 204 without one",
        body=shapes.OrderClaim,
        answers={200: shapes.ClaimedOrder, 204: None},
    ),
    Operation(
        "heartbeat_order",
        "POST",
        f"{ORDER_RULE}/heartbeat",
        AccessRequirement.WRITE_RESULTS,
        heartbeat_order,
        "Keep a claimed order and report how far it is",
        body=shapes.OrderHeartbeat,
        answers={200: shapes.OrderLeaseShape},
    ),
    Operation(
        "finish_order",
        "POST",
        f"{ORDER_RULE}/finish",
        AccessRequirement.WRITE_RESULTS,
        finish_order,
        "Close a claimed order with what it came to",
        body=shapes.OrderFinish,
        answers={200: shapes.OrderShape},
    ),
    Operation(
        "fail_order",
        "POST",
        f"{ORDER_RULE}/fail",
        AccessRequirement.WRITE_RESULTS,
        fail_order,
        "Close a claimed order that cannot be measured, with the reason",
        body=shapes.OrderFailure,
        answers={200: shapes.OrderShape},
    ),
    Operation(
        "release_order",
        "POST",
        f"{ORDER_RULE}/release",
        AccessRequirement.WRITE_RESULTS,
        release_order,
        "Give a claimed order back to the queue",
        body=shapes.OrderRelease,
        answers={200: shapes.OrderShape},
    ),
)
