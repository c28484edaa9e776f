"""Write the comment of a pull request of which nothing was measured, with the reason."""

from __future__ import annotations

from enum import StrEnum

from perfci.model import Commit
from perfci.report.escaping import MAX_REASON_LENGTH, code_span, markdown_link


class NotMeasuredReason(StrEnum):
    """Why there is no comparison, which must not read as if nothing had changed."""

    IDENTICAL = "identical"  # nothing that the benchmarks can see differs
    CANCELLED = "cancelled"
    BUDGET = "budget"
    BROKEN = "broken"


TITLES = {
    NotMeasuredReason.IDENTICAL: "nothing to measure",
    NotMeasuredReason.CANCELLED: "not run",
    NotMeasuredReason.BUDGET: "not run, time budget used up",
    NotMeasuredReason.BROKEN: "not run, measurement failed",
}

EXPLANATIONS = {
    NotMeasuredReason.IDENTICAL: (
        "Base and head are identical for the benchmarks: no file they depend on differs."
    ),
    NotMeasuredReason.CANCELLED: (
        "The run was cancelled before there was a result, so nothing is known about this change."
    ),
    NotMeasuredReason.BUDGET: (
        "The time budget ran out before anything was measured, so nothing is known about this change."
    ),
    NotMeasuredReason.BROKEN: (
        "Measurement failed before there was a result, so nothing is known about this change."
    ),
}


def render_not_measured_comment(
    reason: NotMeasuredReason, base: Commit, head: Commit, *, detail: str = "", page: str = ""
) -> str:
    """Say that nothing was measured, and why; ``detail`` is foreign text, such as an error message."""
    sides = f"Base {code_span(base.short_sha)} → head {code_span(head.short_sha)}"
    parts = [
        f"### perfci: {TITLES[reason]}",
        f"{sides} · {markdown_link('log', page)}" if page else sides,
        EXPLANATIONS[reason],
        code_span(detail, limit=MAX_REASON_LENGTH) if detail else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
