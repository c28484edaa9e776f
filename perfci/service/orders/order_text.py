"""Text of measurement orders for terminals and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfci.net.api_schemas.measurement_orders import (
    BackfillShape,
    BisectShape,
    OrderResultShape,
    OrderShape,
)
from perfci.number_format import format_count, format_duration, format_percent
from perfci.report.commits.bisect_text import format_certainty, format_change
from perfci.report.escaping import make_printable

MIN_SHOWN_PROBABILITY = 0.05


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
    parts = [
        make_printable(_describe_commits(order)),
        f"--bench {make_printable(order.bench)}" if order.bench else "",
        f"--metric {make_printable(order.metric)}" if order.metric else "",
        f"{order.pairs} pairs" if order.pairs else "",
        f"every {order.stride} commits" if order.stride and order.stride > 1 else "",
        f"at most {format_count(order.max_processes, 'process', 'processes')}" if order.max_processes else "",
        f"at most {format_duration(order.budget_s)}" if order.budget_s else "",
        f"{make_printable(order.suite)} suite" if order.suite else "",
    ]
    return ", ".join(part for part in parts if part)


def _describe_commits(order: OrderShape) -> str:
    if order.base is None:
        return f"commit {order.head[:10]}"
    ends = order.base[:10], order.head[:10]
    words = {"bisect": "bisect {}..{}", "backfill": "backfill {}..{}"}
    return words.get(order.kind, "pairs of {} and {}").format(*ends)


def describe_state(order: OrderShape) -> str:
    """Describe the state with its progress, result or problem."""
    detail = order.progress or order.problem or _describe_findings(order)
    state = make_printable(order.state)
    return f"{state}: {make_printable(detail, 2000)}" if detail else state


def _describe_findings(order: OrderShape) -> str:
    if order.bisect is not None:
        return describe_bisect(order.bisect)
    if order.backfill is not None:
        return describe_backfill(order.backfill)
    return describe_result(order.result) if order.result else ""


def describe_bisect(bisect: BisectShape) -> str:
    """Describe what a bisect found with its certainty and its cost, or whom it points at so far."""
    return f"{_describe_finding(bisect)}; {describe_bisect_cost(bisect)}"


def describe_bisect_progress(bisect: BisectShape) -> str:
    """Describe how far a bisect is: ``7 of 64 commits left at 95 %, 12 processes, 3 min 5 s``."""
    left = "the ends of the range are compared"
    if bisect.commits_measured > 2:
        left = f"{bisect.commits_left} of {format_count(bisect.commits, 'commit')} left at 95 %"
    processes = format_count(bisect.processes, "process", "processes")
    return f"{left}, {processes}, {format_duration(bisect.machine_s)}"


def describe_bisect_cost(bisect: BisectShape) -> str:
    """Describe what a bisect cost."""
    processes = format_count(bisect.processes, "process", "processes")
    measured = format_count(bisect.commits_measured, "commit")
    return f"{processes} of {measured}, {format_duration(bisect.machine_s)} of machine time"


def describe_backfill(backfill: BackfillShape) -> str:
    """Describe how far a backfill is."""
    chosen = format_count(backfill.commits_chosen, "commit")
    parts = [
        f"{backfill.commits_measured} of {chosen} measured",
        f"{backfill.commits_with_results} had results" if backfill.commits_with_results else "",
        f"{len(backfill.unmeasurable)} cannot be measured" if backfill.unmeasurable else "",
        format_count(backfill.processes, "process", "processes"),
    ]
    return ", ".join(filter(None, parts))


def _describe_finding(bisect: BisectShape) -> str:
    if bisect.outcome is None or bisect.commit is None or bisect.after is None:
        return _describe_likeliest(bisect)
    lo, hi = bisect.interval or (0.0, 0.0)
    change, certainty = format_change(bisect.change or 0.0, lo, hi), format_certainty(bisect.probability or 0)
    between = f"between {bisect.after[:10]} and {bisect.commit[:10]}"
    sentences: Mapping[str, Callable[[], str]] = {
        "named": lambda: f"{_name(bisect)} moved it by {change}, {certainty}",
        "narrowed": lambda: f"one of several commits moved it by {change}, {certainty}: {between}",
        "unconfirmed": lambda: f"{_name(bisect)} is the likeliest, {certainty}, and not confirmed",
        "spread": lambda: f"no single commit moved it: {change} is spread over several",
        "no_difference": lambda: f"the ends of the range do not differ clearly: {change}",
    }
    return sentences[bisect.outcome]()


def _describe_likeliest(bisect: BisectShape) -> str:
    likely = [item for item in bisect.candidates[:3] if item.probability >= MIN_SHOWN_PROBABILITY]
    named = ", ".join(f"{item.commit[:10]} {format_percent(item.probability)}" for item in likely)
    return f"not decided, the likeliest: {named}" if named else "not decided, no commit stands out"


def _name(bisect: BisectShape) -> str:
    return (bisect.commit or "")[:10]


def describe_result(result: OrderResultShape) -> str:
    """Describe what a measurement came to: ``1 regression, 3 unchanged``."""
    counted = [f"{count} {kind.replace('_', ' ')}" for kind, count in result.counts.items() if count]
    return make_printable(", ".join(counted) or result.verdict.replace("_", " "))
