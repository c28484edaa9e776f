"""The view model of measurement orders: what each asks for, how far it is, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perfci.net.api_schemas.measurement_orders import OrderRequestShape, OrderShape
from perfci.service.orders.order_text import describe_state
from perfci.service.orders.serialize_orders import serialize_order
from perfci.store.jobs.measurement_orders import DONE, FAILED, MeasurementOrder

CSV_COLUMNS = (
    "id",
    "kind",
    "state",
    "base",
    "head",
    "bench",
    "engine",
    "created_at",
    "started_at",
    "ended_at",
    "attempts",
    "worker",
    "problem",
    "verdict",
    "requested_by",
)

TONES = {"regression": "worse", "failed": "worse", "improvement": "better"}


@dataclass(frozen=True, slots=True)
class OrderRow:
    """One order; ``tone`` colours its state by what it came to."""

    order: OrderShape
    is_open: bool

    @property
    def tone(self) -> str:
        if self.order.state == FAILED:
            return "worse"
        if self.order.state == DONE and self.order.result:
            return TONES.get(self.order.result.verdict, "same")
        return "void"

    @property
    def detail(self) -> str:
        """How far the order is, what it came to, or why it has no result."""
        return describe_state(self.order).partition(": ")[2]

    @property
    def requests(self) -> Sequence[OrderRequestShape]:
        return self.order.requests


@dataclass(frozen=True, slots=True)
class OrdersView:
    """All open orders, and a page of the closed ones; ``older_than`` is where the next page begins."""

    open_orders: tuple[OrderRow, ...]
    closed_orders: tuple[OrderRow, ...]
    older_than: int | None = None


def build_orders_view(
    open_orders: Sequence[MeasurementOrder], closed_orders: Sequence[MeasurementOrder], page_size: int
) -> OrdersView:
    """Build the page from all open orders and one closed order more than a page shows."""
    shown = closed_orders[:page_size]
    return OrdersView(
        tuple(map(_build_row, open_orders)),
        tuple(map(_build_row, shown)),
        shown[-1].id if len(closed_orders) > page_size else None,
    )


def serialize_orders_view(page: OrdersView) -> dict[str, Any]:
    """Return the JSON of the page; ``older_than`` is the ``before`` of its next page."""
    return {
        "open": [row.order.model_dump(mode="json") for row in page.open_orders],
        "closed": [row.order.model_dump(mode="json") for row in page.closed_orders],
        "older_than": page.older_than,
    }


def build_csv_row(row: OrderRow) -> dict[str, Any]:
    """Build the line of an order."""
    fields = row.order.model_dump(mode="json")
    verdict = row.order.result.verdict if row.order.result else None
    requested_by = " ".join(dict.fromkeys(request.requested_by for request in row.requests))
    return fields | {"verdict": verdict, "requested_by": requested_by}


def _build_row(order: MeasurementOrder) -> OrderRow:
    return OrderRow(serialize_order(order), order.is_open)
