"""Serialize measurement orders as the API shows them."""

from __future__ import annotations

from typing import Any

from perfci.net.api_schemas.measurement_orders import (
    BackfillShape,
    BisectShape,
    OrderFindings,
    OrderRequestShape,
    OrderResultShape,
    OrderShape,
)
from perfci.store.jobs.measurement_orders import MeasurementOrder, OrderRequest


def serialize_order(order: MeasurementOrder) -> OrderShape:
    """Serialize an order with all who asked for it; its lease is the worker's alone."""
    content, detail = order.content, order.detail or {}
    return OrderShape(
        id=order.id,
        kind=content.kind,
        base=content.base_sha,
        head=content.head_sha,
        bench=content.bench,
        pairs=content.pairs,
        suite=content.suite,
        metric=content.metric,
        max_processes=content.max_processes,
        budget_s=content.budget_s,
        stride=content.stride,
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
        bisect=None if detail.get("bisect") is None else BisectShape.model_validate(detail["bisect"]),
        backfill=None if detail.get("backfill") is None else BackfillShape.model_validate(detail["backfill"]),
    )


def dump_findings(findings: OrderFindings | None) -> dict[str, Any] | None:
    """What a worker reports of a bisect or a backfill, as it is stored."""
    return None if findings is None else findings.model_dump(mode="json", exclude_none=True)


def _serialize_request(request: OrderRequest) -> OrderRequestShape:
    return OrderRequestShape(
        requested_by=request.requested_by,
        source=request.source,
        requested_at=request.requested_at,
        pull=request.pull_number,
        incident=request.incident,
        series=request.series or None,
    )
