"""Serve the workers of a project: each request names the lease under which it was made, and may be repeated.

A response may be lost on its way. So a worker that claims again gets the order that it holds, and one that
closes an order again, in the same way and under the same lease, is answered as the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.orders.carry_out_orders import (
    ORDER_LEASE,
    OrderResult,
    claim_order,
    fail_order,
    finish_order,
    heartbeat_order,
)
from perfci.store.jobs.measurement_orders import (
    QUEUED,
    RUNNING,
    MeasurementOrder,
    find_held_order,
    find_order,
    release_order,
    renew_order_lease,
)
from perfci.store.projects import Project

JOB_TOKEN_REFUSED = (
    "A job's token is for what the job itself measured; a worker needs a token of `perfci token create` "
    "with the scope results:write."
)


class OrderNotHeld(PerfciError):
    """A worker acts on an order that was closed, or claimed by another worker, meanwhile."""


def claim_order_for_worker(
    tx: Transaction, context: AuditContext, project: Project, engine: str, worker: str
) -> MeasurementOrder | None:
    """Claim the oldest order of a project that waits, or again the one that this worker holds."""
    held = find_held_order(tx, project.id, engine, worker)
    if held is not None and renew_order_lease(tx, held.id, held.lease_token, context.at, ORDER_LEASE):
        return held
    order = claim_order(tx, engine, worker, context.at, project_id=project.id)
    if order is not None:
        detail = {"worker": worker, "attempt": order.attempts}
        context.add_audit_entry(tx, "order.claim", str(order.id), project.id, detail)
    return order


def keep_order_for_worker(
    tx: Transaction, project: Project, order_id: int, lease: int, at: datetime, progress: str
) -> tuple[bool, str] | None:
    """Take a heartbeat; return whether the worker holds the order and its state, None without an order."""
    is_of_project = find_order(tx, project.id, order_id) is not None
    is_held = is_of_project and heartbeat_order(tx, order_id, lease, at, progress)
    order = find_order(tx, project.id, order_id)
    return None if order is None else (is_held, order.state)


def finish_order_of_worker(
    tx: Transaction,
    context: AuditContext,
    project: Project,
    order_id: int,
    lease: int,
    result: OrderResult,
) -> MeasurementOrder | None:
    """Close an order with its result; None without an order, OrderNotHeld where it is not the worker's."""

    def is_same(order: MeasurementOrder) -> bool:
        return order.result == result.to_json()

    def close(order: MeasurementOrder) -> bool:
        return finish_order(tx, order, context.at, result)

    return _act_as_holder(tx, context, project, order_id, lease, "order.finish", close, is_same)


def fail_order_of_worker(
    tx: Transaction, context: AuditContext, project: Project, order_id: int, lease: int, problem: str
) -> MeasurementOrder | None:
    """Close an order that cannot be measured; None without an order, OrderNotHeld where it is another's."""

    def is_same(order: MeasurementOrder) -> bool:
        return order.problem == problem

    def close(order: MeasurementOrder) -> bool:
        return fail_order(tx, order, context.at, problem)

    return _act_as_holder(tx, context, project, order_id, lease, "order.fail", close, is_same)


def release_order_of_worker(
    tx: Transaction, context: AuditContext, project: Project, order_id: int, lease: int
) -> MeasurementOrder | None:
    """Give an order back to the queue; None without an order, OrderNotHeld where it is another's."""

    def is_same(order: MeasurementOrder) -> bool:
        return order.state == QUEUED

    def release(order: MeasurementOrder) -> bool:
        return release_order(tx, order)

    return _act_as_holder(tx, context, project, order_id, lease, "order.release", release, is_same)


def _act_as_holder(
    tx: Transaction,
    context: AuditContext,
    project: Project,
    order_id: int,
    lease: int,
    action: str,
    act: Callable[[MeasurementOrder], bool],
    is_same: Callable[[MeasurementOrder], bool],
) -> MeasurementOrder | None:
    order = find_order(tx, project.id, order_id)
    if order is None:
        return None
    is_leased = order.lease_token == lease
    if is_leased and order.state == RUNNING and act(order):
        context.add_audit_entry(tx, action, str(order.id), project.id)
        return find_order(tx, project.id, order_id)
    if is_leased and order.state != RUNNING and is_same(order):
        return order
    raise OrderNotHeld(f"Order {order.id} is {order.state} and no longer this worker's: claim another one.")
