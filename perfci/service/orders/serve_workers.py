"""Serve the workers of a project: each request names the lease under which it was made, and may be repeated.

A response may be lost on its way. So a worker that claims again gets the order that it holds, and one that
closes an order again, in the same way and under the same lease, is answered as the first time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import ClaimedOrder
from perfci.service.audit_context import AuditContext
from perfci.service.orders.carry_out_orders import (
    ORDER_LEASE,
    OrderResult,
    claim_order,
    fail_order,
    finish_order,
    heartbeat_order,
)
from perfci.service.orders.check_order_content import BACKFILL
from perfci.service.orders.record_bisect_answer import record_bisect_answer
from perfci.service.orders.serialize_orders import serialize_order
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
from perfci.store.queries.results_of_cells import load_commits_with_results

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


def build_claimed_order(tx: Transaction, order: MeasurementOrder) -> ClaimedOrder:
    """Build what a worker gets: the order, its lease, and what of a backfill has results already."""
    measured: set[str] = set()
    if order.content.kind == BACKFILL:
        pattern = re.compile(order.content.bench)
        measured = load_commits_with_results(tx, order.project, lambda cell: bool(pattern.search(cell)))
    return ClaimedOrder(
        order=serialize_order(order),
        lease=order.lease_token,
        lease_s=ORDER_LEASE.total_seconds(),
        measured=tuple(sorted(measured)),
    )


def keep_order_for_worker(
    tx: Transaction,
    project: Project,
    order_id: int,
    lease: int,
    at: datetime,
    progress: str | None,
    detail: Mapping[str, Any] | None = None,
) -> tuple[bool, str] | None:
    """Take a heartbeat; return whether the worker holds the order and its state, None without an order."""
    is_of_project = find_order(tx, project.id, order_id) is not None
    is_held = is_of_project and heartbeat_order(tx, order_id, lease, at, progress, detail)
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
        if not finish_order(tx, order, context.at, result):
            return False
        record_bisect_answer(tx, context, project, order, result.detail)
        return True

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
