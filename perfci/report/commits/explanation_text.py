"""Why a benchmark got slower, in one sentence and in tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from perfci.number_format import (
    choose_display_scale,
    format_count,
    format_number,
    format_percent,
    format_quantity,
    format_signed_percent,
)
from perfci.report.environment_changes import format_environment_changes
from perfci.report.escaping import code_span, make_printable
from perfci.report.text_table import align_table
from perfci.verdicts.explain.explanation import (
    Cause,
    CauseKind,
    CodeLine,
    Conclusion,
    CountChange,
    Explanation,
    GrowthRow,
)

MAX_COUNTS_NAMED = 3
MAX_SOURCE_TEXT = 80
MAX_NAME_WIDTH = 88
OUTSIDE_PHASES = "(outside any phase)"

Quote = Callable[[str], str]


def format_explanation(explanation: Explanation, *, markdown: bool = False) -> str:
    """One sentence on what grew, where, and how much of the slowdown it is; or on why none can be said."""
    quote: Quote = _markdown_quote if markdown else _plain_quote
    match explanation.conclusion:
        case Conclusion.EXPLAINED | Conclusion.PARTLY:
            causes = "; ".join(_format_cause(cause, quote) for cause in explanation.causes)
            partly = explanation.conclusion is Conclusion.PARTLY
            return f"{'Only partly explained: ' if partly else ''}{causes}." + _format_machine_note(
                explanation
            )
        case Conclusion.COUNTED:
            counts = format_count_changes(explanation.counts)
            return f"Stored counts moved: {counts}; no profile says in which line yet."
        case Conclusion.MACHINE:
            share = _format_share(min(1.0, explanation.same_work_share))
            sentence = (
                f"No line of code explains it: {share} of the slowdown is in lines that are as they were "
                "and run the same operators on the same inputs, so the machine was slower"
            )
        case Conclusion.NOT_SHOWN:
            sentence = _format_not_shown(explanation)
        case Conclusion.NOT_EXPLAINED:
            sentence = _format_not_explained(explanation)
    return f"{sentence}{_format_environment(explanation)}."


def format_explanation_tables(explanation: Explanation) -> Iterator[str]:
    """What was looked at: counts, then what grew by phase, line, operator and kernel."""
    if explanation.counts:
        rows = [(change.metric, *_format_count_row(change)) for change in explanation.counts]
        yield align_table(("stored count", "base", "head", "change"), rows)
    for heading, table in (
        ("phase", explanation.phases),
        ("line", explanation.lines),
        ("operator", explanation.operators),
        ("kernel", explanation.kernels),
    ):
        if table:
            yield _format_growth_table(heading, table)


def serialize_explanation(explanation: Explanation) -> dict[str, Any]:
    """An explanation as plain JSON values, with its sentence."""
    fields = asdict(explanation)
    return {
        "sentence": format_explanation(explanation),
        "markdown": format_explanation(explanation, markdown=True),
        **fields,
        "change": explanation.change if explanation.base_s else None,
    }


def format_count_changes(counts: Sequence[CountChange]) -> str:
    """``flops +98 %, operators +40 % and 2 more``, the largest first."""
    grown = sorted(counts, key=lambda change: -_relative(change))
    named = [f"{change.metric} {_format_change(change)}" for change in grown[:MAX_COUNTS_NAMED]]
    more = len(grown) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _format_cause(cause: Cause, quote: Quote) -> str:
    line = cause.line
    where = f"{_format_place(line, quote)}{_format_source(line, quote)}"
    what = f"takes {format_quantity(cause.seconds, 'seconds')} more of each call"
    in_phase = f" in {make_printable(cause.phase)}" if cause.phase and cause.phase != OUTSIDE_PHASES else ""
    by = f", most of it {quote(cause.operator)}" if cause.operator else ""
    share = f"{_format_share(cause.share)} of the slowdown [{_bare(cause.share_lo)}, {_bare(cause.share_hi)}]"
    return f"{where} {what}{in_phase}{by}: {share}{_format_behind(cause, quote)}"


def _format_behind(cause: Cause, quote: Quote) -> str:
    """What may be behind a line that is as it was."""
    if cause.kind is CauseKind.GRAPH_BREAK:
        reason = make_printable(cause.reason, MAX_SOURCE_TEXT)
        return f" (torch.compile breaks the graph there: {quote(reason)})"
    if cause.kind is CauseKind.CHANGED_CODE:
        return ""
    did = "it runs other operators" if cause.kind is CauseKind.MORE_WORK else "it runs no operator"
    if not cause.changed:
        return f" (the line is as it was, but {did})"
    nearest = " and ".join(
        f"{_format_place(line, quote)}{_format_source(line, quote)}" for line in cause.changed
    )
    return f" (the line is as it was, but {did}; nearest in the difference: {nearest})"


def _format_place(line: CodeLine, quote: Quote) -> str:
    gone = " of the base" if line.is_gone else ""
    return quote(f"{make_printable(line.path)}:{line.number}") + gone


def _format_source(line: CodeLine, quote: Quote) -> str:
    text = make_printable(line.text, MAX_SOURCE_TEXT)
    return f" {quote(text)}" if text else ""


def _format_machine_note(explanation: Explanation) -> str:
    factor = explanation.slower_machine
    if 0.95 <= factor <= 1.05:
        return ""
    speed = "slower" if factor > 1 else "faster"
    return f" (The machine was {format_percent(factor - 1)} {speed} for the head, which is left out.)"


def _format_not_shown(explanation: Explanation) -> str:
    calls = " and ".join(
        f"{format_quantity(seconds, 'seconds')} at the {side}"
        for side, seconds in (("base", explanation.base_s), ("head", explanation.head_s))
    )
    verdict = explanation.expected_change
    expected = f", where the verdict has {format_signed_percent(verdict)}" if verdict else ""
    processes = format_count(explanation.processes, "process", "processes")
    return (
        f"The profile does not show the slowdown: {processes} took {calls} for a call "
        f"({format_signed_percent(explanation.change)}){expected}"
    )


def _format_not_explained(explanation: Explanation) -> str:
    if not explanation.processes:
        looked = "no exact count that is stored for both commits grew, and nothing is profiled"
        return f"Not explained: {looked}"
    processes = format_count(explanation.processes, "process", "processes")
    return (
        f"Not explained: the phases, operators and lines of {processes} were compared, and no line accounts "
        f"for 15 % of the slowdown ({format_signed_percent(explanation.change)} in the profile)"
    )


def _format_environment(explanation: Explanation) -> str:
    if not explanation.environment:
        return ""
    return f"; the environment differs: {format_environment_changes(explanation.environment)}"


def _format_growth_table(heading: str, rows: Sequence[GrowthRow]) -> str:
    scale = choose_display_scale([max(row.base_s, row.head_s) for row in rows], "seconds")
    counted = any(row.base_calls is not None for row in rows)
    cells = [
        (
            make_printable(row.name, MAX_NAME_WIDTH),
            scale.format_with_unit(row.base_s),
            scale.format_with_unit(row.head_s),
            format_growth(row),
            *((_format_calls(row),) if counted else ()),
        )
        for row in rows
    ]
    headings = (heading, "base", "head", "change", *(("calls",) if counted else ()))
    return align_table(headings, cells)


def format_growth(row: GrowthRow) -> str:
    """``new``, ``gone``, or the relative change."""
    if not row.base_s:
        return "new"
    return "gone" if not row.head_s else format_signed_percent(row.head_s / row.base_s - 1)


def _format_calls(row: GrowthRow) -> str:
    before, after = format_number(row.base_calls or 0.0), format_number(row.head_calls or 0.0)
    return before if before == after else f"{before} → {after}"


def _format_count_row(change: CountChange) -> tuple[str, str, str]:
    base, head = (format_quantity(value, change.unit) for value in (change.base, change.head))
    return base, head, _format_change(change)


def _format_change(change: CountChange) -> str:
    if change.base:
        return format_signed_percent(change.head / change.base - 1)
    return f"{format_number(change.base)} → {format_number(change.head)}"


def _relative(change: CountChange) -> float:
    return change.head / change.base if change.base else float("inf")


def _format_share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _bare(share: float) -> str:
    return f"{100 * share:.0f}"


def _plain_quote(text: str) -> str:
    return text


def _markdown_quote(text: str) -> str:
    return code_span(text)
