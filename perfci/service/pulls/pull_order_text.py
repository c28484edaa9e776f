"""Describe the orders of a pull request for the lines on top of its comment."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.order_lines import OrderLine, render_order_lines
from perfci.report.verdict_text import most_severe_verdict
from perfci.service.orders.carry_out_orders import OrderResult
from perfci.service.orders.check_order_content import BISECT
from perfci.service.orders.order_text import describe_bisect
from perfci.service.orders.serialize_orders import serialize_order
from perfci.service.pulls.report_pull import format_comparison_page_url
from perfci.store.jobs.measurement_orders import DISPATCHED, DONE, QUEUED, RUNNING, MeasurementOrder

GITHUB_ACTOR = "github:"
"""What stands before the login of somebody who ordered on GitHub, in the audit log and with the order."""

STATE_TEXTS = {QUEUED: "queued", DISPATCHED: "waiting for a runner", RUNNING: "running"}

MAX_SHOWN_NAMES = 3


def select_orders_of_head(orders: Sequence[MeasurementOrder], head: str) -> list[MeasurementOrder]:
    """Select the orders of the newest commit of a pull request; those of older ones are outdated."""
    return [order for order in orders if order.content.head_sha == head]


def format_order_lines(orders: Sequence[MeasurementOrder], pull_number: int, server: str) -> str:
    """Format who asked for what on a pull request, and how far it is.

    ``server`` is this server's public address, which has the comparison that a worker of its own measured.
    """
    return render_order_lines([_describe_order(order, pull_number, server) for order in orders])


def summarize_order_findings(findings: Findings, sessions: Sequence[str]) -> OrderResult:
    """Summarize what an ordered comparison came to, by the verdicts of its series."""
    counts: dict[str, int] = {}
    for verdict in findings.verdicts:
        counts[str(verdict.kind)] = counts.get(str(verdict.kind), 0) + 1
    worst = str(most_severe_verdict(findings.verdicts).kind) if findings.verdicts else "missing"
    return OrderResult(worst, counts, tuple(sessions))


def _describe_order(order: MeasurementOrder, pull_number: int, server: str) -> OrderLine:
    names = dict.fromkeys(
        request.requested_by.removeprefix(GITHUB_ACTOR)
        for request in order.requests
        if request.pull_number == pull_number
    )
    state = STATE_TEXTS.get(order.state, order.state)
    if order.state == QUEUED and order.attempts:
        state = "queued again, as its run ended without a result"
    return OrderLine(
        list(names)[:MAX_SHOWN_NAMES],
        f"bisect {order.content.bench}" if order.content.kind == BISECT else order.content.bench,
        order.content.pairs,
        state,
        _describe_outcome(order),
        order.external_url or (_format_page_url(order, server) if order.state == DONE else ""),
    )


def _format_page_url(order: MeasurementOrder, server: str) -> str:
    content = order.content
    return format_comparison_page_url(server, order.project, content.base_sha or "", content.head_sha)


def _describe_outcome(order: MeasurementOrder) -> str:
    if order.is_open:
        return order.progress
    if order.state != DONE or not order.result:
        return order.problem
    if (bisect := serialize_order(order).bisect) is not None:
        return describe_bisect(bisect)
    counts: dict[str, int] = order.result.get("counts", {})
    return ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items()) or "no difference"
