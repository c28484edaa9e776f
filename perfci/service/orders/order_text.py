"""Text of measurement orders for terminals and pages."""

from __future__ import annotations

from perfci.net.api_schemas.measurement_orders import OrderResultShape, OrderShape
from perfci.report.escaping import make_printable


def format_order(order: OrderShape) -> str:
    """Format an order in lines: what it asks for, who asked, how far it is or what it came to."""
    lines = [f"order {order.id}: {describe_order(order)}", f"state: {describe_state(order)}"]
    for request in order.requests:
        when = f"{request.requested_at:%Y-%m-%d %H:%M}"
        pull = f", #{request.pull}" if request.pull else ""
        incident = f", incident {request.incident}" if request.incident else ""
        lines.append(f"asked by {make_printable(request.requested_by)}, {when}{pull}{incident}")
    return "\n".join(lines)


def format_order_line(order: OrderShape) -> str:
    """Format an order in one line of a list."""
    by = f"  ({make_printable(order.requests[0].requested_by)})" if order.requests else ""
    return f"{order.id:>5}  {describe_order(order)}  {describe_state(order)}{by}"


def describe_order(order: OrderShape) -> str:
    """Describe what an order asks for; nothing of it can act on a terminal."""
    commits = (
        f"pairs of {order.base[:10]} and {order.head[:10]}" if order.base else f"commit {order.head[:10]}"
    )
    parts = [
        make_printable(commits),
        f"--bench {make_printable(order.bench)}" if order.bench else "",
        f"{order.pairs} pairs" if order.pairs else "",
        f"{make_printable(order.suite)} suite" if order.suite else "",
    ]
    return ", ".join(part for part in parts if part)


def describe_state(order: OrderShape) -> str:
    """Describe the state with its progress, result or problem."""
    detail = order.progress or order.problem or (describe_result(order.result) if order.result else "")
    state = make_printable(order.state)
    return f"{state}: {make_printable(detail, 2000)}" if detail else state


def describe_result(result: OrderResultShape) -> str:
    """Describe what a measurement came to: ``1 regression, 3 unchanged``."""
    counted = [f"{count} {kind.replace('_', ' ')}" for kind, count in result.counts.items() if count]
    return make_printable(", ".join(counted) or result.verdict.replace("_", " "))
