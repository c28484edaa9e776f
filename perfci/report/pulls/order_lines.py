"""Write what was ordered on a pull request, and how far it is, on top of its comment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.number_format import format_count
from perfci.report.escaping import MAX_REASON_LENGTH, code_span, markdown_link

ORDER_PREFIX = "> **Ordered** by "

MAX_ORDER_LINES = 5
"""The newest orders that are shown."""


@dataclass(frozen=True, slots=True)
class OrderLine:
    """One order: who asked for it, what is measured, and its state with a detail, which is foreign text.

    ``url`` leads to where it is measured.
    """

    requested_by: Sequence[str]
    bench: str
    pairs: int | None
    state: str
    detail: str = ""
    url: str = ""


def render_order_lines(orders: Sequence[OrderLine]) -> str:
    """Render the newest orders, one line each, oldest first; empty without any."""
    shown = orders[-MAX_ORDER_LINES:]
    return "".join(f"{_render_line(order)}\n" for order in shown)


def replace_order_lines(body: str, order_lines: str) -> str:
    """Put order lines on top of a comment, in the place of those that are there."""
    rest = remove_order_lines(body)
    return f"{order_lines}\n{rest}" if order_lines and rest else order_lines or rest


def remove_order_lines(body: str) -> str:
    """Remove the order lines, and blank ones, from the top of a comment."""
    lines = body.split("\n")
    while lines and (lines[0].startswith(ORDER_PREFIX) or not lines[0].strip()):
        del lines[0]
    return "\n".join(lines)


def _render_line(order: OrderLine) -> str:
    by = ", ".join(code_span(name) for name in order.requested_by)
    scope = code_span(order.bench, limit=MAX_REASON_LENGTH) if order.bench else "default benchmarks"
    pairs = f", {format_count(order.pairs, 'pair')}" if order.pairs is not None else ""
    state = markdown_link(order.state, order.url) if order.url else order.state
    detail = f", {code_span(order.detail, limit=MAX_REASON_LENGTH)}" if order.detail else ""
    return f"{ORDER_PREFIX}{by}: {scope}{pairs} · {state}{detail}"
