"""What stands in the place of a comparison: nothing was measured, or what was measured is outdated."""

from __future__ import annotations

from enum import StrEnum

from perfci.model import Commit
from perfci.report.escaping import code_span, link
from perfci.report.verdict_sentences import LONGEST_REASON


class NotMeasured(StrEnum):
    """Why there is no comparison; silence and calm must not look alike."""

    IDENTICAL = "identical"  # nothing that the benchmarks can see differs
    CANCELLED = "cancelled"
    BUDGET = "budget"
    BROKEN = "broken"


TITLES = {
    NotMeasured.IDENTICAL: "nothing to measure",
    NotMeasured.CANCELLED: "not run",
    NotMeasured.BUDGET: "not run, the time budget is spent",
    NotMeasured.BROKEN: "not run, the measuring broke",
}

MEANINGS = {
    NotMeasured.IDENTICAL: "Base and head are the same to the benchmarks: no file that they can see differs.",
    NotMeasured.CANCELLED: "The run was cancelled before anything was decided: nothing is known of this change.",
    NotMeasured.BUDGET: "The time was over before anything was measured: nothing is known of this change.",
    NotMeasured.BROKEN: "The measuring broke before anything was decided: nothing is known of this change.",
}

OUTDATED = "> **Outdated:** there is a newer head, "


def not_measured(why: NotMeasured, base: Commit, head: Commit, *, detail: str = "", page: str = "") -> str:
    """Say that nothing was measured, and why; ``detail`` is what a machine said of it."""
    sides = f"Base {code_span(base.short)} → head {code_span(head.short)}"
    parts = [
        f"### perfci: {TITLES[why]}",
        f"{sides} · {link('log', page)}" if page else sides,
        MEANINGS[why],
        code_span(detail, limit=LONGEST_REASON) if detail else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def outdated(body: str, newer: Commit) -> str:
    """A comment on an older head: one grey line on top, and what was said folded below; told once, however often."""
    line = f"{OUTDATED}{code_span(newer.short)}; its result takes this place."
    if body.startswith(OUTDATED):
        return line + body[body.index("\n") :]
    return f"{line}\n\n<details><summary>What the older head showed</summary>\n\n{body.rstrip()}\n\n</details>\n"
