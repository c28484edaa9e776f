"""Place and cancel measurement orders for people, audited."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.orders.check_order_content import SOURCES, check_order_content
from perfci.store.jobs.measurement_orders import (
    CANCELLED,
    MeasurementOrder,
    OrderContent,
    OrderRequest,
    add_or_join_order,
    close_order,
    count_open_orders,
    find_open_order,
    find_order,
)
from perfci.store.projects import Project

MAX_OPEN_ORDERS = 50
"""Orders of one project that may be open: beyond them somebody orders faster than machines measure."""


class TooManyOrders(PerfciError):
    """A project has as many open orders as it may have."""


def place_order(
    tx: Transaction,
    context: AuditContext,
    project: Project,
    content: OrderContent,
    source: str,
    *,
    pull_number: int | None = None,
    comment_id: int | None = None,
    incident: int | None = None,
    series: str = "",
) -> MeasurementOrder:
    """Place an order, or join the open one of equal content: whoever asked for it is kept either way.

    Raises PerfciError where the content is invalid, and TooManyOrders where the project has too many.
    """
    check_order_content(content)
    if source not in SOURCES:
        raise PerfciError(f"An order comes from one of {', '.join(SOURCES)}, not from {source!r}.")
    _check_room(tx, project, content)
    request = OrderRequest(context.actor.name, source, context.at, pull_number, comment_id, incident, series)
    order_id, is_new = add_or_join_order(tx, project.id, content, request)
    action = "order.place" if is_new else "order.join"
    context.add_audit_entry(tx, action, str(order_id), project.id, _describe(content, source))
    order = find_order(tx, project.id, order_id)
    assert order is not None  # it was written in this transaction
    return order


def cancel_order(tx: Transaction, context: AuditContext, order: MeasurementOrder) -> bool:
    """Cancel an open order; False if it is closed by now. A worker that measures it stops at its next
    heartbeat.
    """
    problem = f"Cancelled by {context.actor.name}."
    if not close_order(tx, order, CANCELLED, context.at, problem=problem, by_holder=False):
        return False
    context.add_audit_entry(tx, "order.cancel", str(order.id), order.project_id)
    return True


def _check_room(tx: Transaction, project: Project, content: OrderContent) -> None:
    if count_open_orders(tx, project.id) < MAX_OPEN_ORDERS or find_open_order(tx, project.id, content):
        return
    raise TooManyOrders(
        f"{project.slug} has {MAX_OPEN_ORDERS} open orders: wait until some are measured, or cancel some."
    )


def _describe(content: OrderContent, source: str) -> dict[str, Any]:
    return {
        "kind": content.kind,
        "base": content.base_sha,
        "head": content.head_sha,
        "bench": content.bench,
        "pairs": content.pairs,
        "engine": content.engine,
        "source": source,
    }
