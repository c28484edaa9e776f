"""Serialize measurement orders as the API shows them."""

from __future__ import annotations

from perfci.net.api_schemas.measurement_orders import OrderRequestShape, OrderResultShape, OrderShape
from perfci.store.jobs.measurement_orders import MeasurementOrder, OrderRequest


def serialize_order(order: MeasurementOrder) -> OrderShape:
    """Serialize an order with all who asked for it; its lease is the worker's alone."""
    content = order.content
    return OrderShape(
        id=order.id,
        kind=content.kind,
        base=content.base_sha,
        head=content.head_sha,
        bench=content.bench,
        pairs=content.pairs,
        suite=content.suite,
        engine=content.engine,
        state=order.state,
        created_at=order.created_at,
        started_at=order.started_at,
        ended_at=order.ended_at,
        attempts=order.attempts,
        worker=order.holder,
        progress=order.progress,
        problem=order.problem,
        external_url=order.external_url,
        requests=tuple(map(_serialize_request, order.requests)),
        result=None if order.result is None else OrderResultShape.model_validate(order.result),
    )


def _serialize_request(request: OrderRequest) -> OrderRequestShape:
    return OrderRequestShape(
        requested_by=request.requested_by,
        source=request.source,
        requested_at=request.requested_at,
        pull=request.pull_number,
        incident=request.incident,
        series=request.series or None,
    )
