"""Format goals: the outcome of each, every clause with its interval, and the trade-offs."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Interval, Verdict, cell_name
from perfci.number_format import (
    choose_display_scale,
    format_quantity,
    format_signed_percent,
    format_significant_digits,
)
from perfci.report.escaping import MAX_REASON_LENGTH, code_span, make_printable
from perfci.report.text_table import align_table
from perfci.report.verdict_text import relative_change_phrase
from perfci.verdicts.goals.goal_clauses import unit_conversion_factor
from perfci.verdicts.goals.goal_verdict import ClauseVerdict, GoalOutcome, GoalVerdict
from perfci.verdicts.goals.tradeoffs import Tradeoff
from perfci.verdicts.variants.variant_contrast import get_benchmark_class

GLYPHS = {
    GoalOutcome.MET: "✓",
    GoalOutcome.BROKEN: "✕",
    GoalOutcome.UNDECIDED: "?",
    GoalOutcome.REJECTED: "✕",
}
HEADINGS = ("", "clause", "benchmark", "estimate", "95 % interval", "")
LEFT_ALIGNED = frozenset({0, 1, 2, 5})


def format_goals(goals: Sequence[GoalVerdict]) -> str:
    """Format all goals for a terminal; empty without goals."""
    texts = []
    for goal in goals:
        lines = [goal_headline(goal)]
        if rows := [_clause_row(clause) for clause in goal.clauses]:
            lines += [f"  {line}" for line in align_table(HEADINGS, rows, LEFT_ALIGNED).splitlines()]
        lines += [f"  ⇄ {tradeoff_sentence(trade)}" for trade in goal.trades]
        texts.append("\n".join(lines) + "\n")
    return "\n".join(texts)


def render_goals_markdown(goals: Sequence[GoalVerdict]) -> str:
    """Render all goals as a Markdown list, with their clauses nested."""
    return "".join(f"{line}\n" for line in goal_markdown_lines(goals))


def goal_markdown_lines(goals: Sequence[GoalVerdict]) -> list[str]:
    """Return the lines of the Markdown list, all foreign text inside code spans."""
    lines = []
    for goal in goals:
        subject = f", {code_span(goal.subject)}" if goal.subject else ""
        trade = ", with a trade-off" if goal.trades else ""
        name = f"{GLYPHS[goal.outcome]} goal {code_span(goal.name)}{subject}"
        lines.append(f"- {name}: **{goal.outcome.value}**{trade}")
        if goal.reason:
            lines.append(f"  - {code_span(goal.reason, limit=MAX_REASON_LENGTH)}")
        lines += [_clause_line(clause) for clause in goal.clauses]
        lines += [f"  - ⇄ {code_span(tradeoff_sentence(tradeoff))}" for tradeoff in goal.trades]
    return lines


def goal_headline(goal: GoalVerdict) -> str:
    """Format the headline of a goal with its reason: ``goal fast enough, attn=flash: broken``."""
    subject = f", {make_printable(goal.subject)}" if goal.subject else ""
    trade = ", with a trade-off" if goal.trades else ""
    reason = f": {make_printable(goal.reason, MAX_REASON_LENGTH)}" if goal.reason else ""
    name = f"{GLYPHS[goal.outcome]} goal {make_printable(goal.name)}{subject}"
    return f"{name}: {goal.outcome.value}{trade}{reason}"


def tradeoff_sentence(trade: Tradeoff) -> str:
    """Describe a trade-off: what got better, and what got worse for it.

    ``trade-off at model.Gpt('flash', 8): step_time got 31.0 % faster, but peak needs 18.2 % more
    memory``
    """
    series = trade.gain.series
    cell = cell_name(get_benchmark_class(series.benchmark.name) or series.benchmark.name, series.parameters)
    gain, loss = _metric_change_phrase(trade.gain), _metric_change_phrase(trade.cost)
    return f"trade-off at {make_printable(cell)}: {gain}, but {loss}"


def _metric_change_phrase(verdict: Verdict) -> str:
    metric = verdict.series.metric
    name = make_printable(metric.name)
    return f"{name} {relative_change_phrase(verdict.ratio, metric)}" if verdict.ratio else name


def _clause_row(clause_verdict: ClauseVerdict) -> tuple[str, ...]:
    estimate = interval = ""
    if clause_verdict.estimate is not None:
        estimate = format_clause_value(clause_verdict, clause_verdict.estimate)
    if clause_verdict.interval is not None:
        interval = format_clause_interval(clause_verdict, clause_verdict.interval)
    return (
        GLYPHS[clause_verdict.outcome],
        make_printable(clause_verdict.clause.text),
        make_printable(clause_verdict.series.cell) if clause_verdict.series else "",
        estimate,
        interval,
        clause_metric_and_reason(clause_verdict),
    )


def clause_metric_and_reason(clause_verdict: ClauseVerdict) -> str:
    """Return the metric that was evaluated, if the clause names another, and the reason of the outcome."""
    evaluated = clause_verdict.series.metric.name if clause_verdict.series else ""
    notes = [make_printable(clause_verdict.reason, MAX_REASON_LENGTH)]
    if evaluated and evaluated != clause_verdict.clause.metric:
        notes.insert(0, f"evaluated on {make_printable(evaluated)}")
    return "; ".join(note for note in notes if note)


def format_clause_value(clause_verdict: ClauseVerdict, value: float) -> str:
    """Format a ratio as ``0.671x``, a deviation as ``+0.3 %``, and a level in a fitting unit."""
    if clause_verdict.clause.comparison == "within":
        return _format_deviation(value)
    if clause_verdict.clause.is_ratio or clause_verdict.series is None:
        return f"{value:.3f}x"
    metric = clause_verdict.series.metric
    return format_quantity(
        value * unit_conversion_factor(clause_verdict.clause, metric.unit), metric.unit, metric.name
    )


def format_clause_interval(clause_verdict: ClauseVerdict, interval: Interval) -> str:
    """Format the interval of a clause in the unit of its value."""
    if interval.lo == interval.hi:
        return "exact"
    if clause_verdict.clause.comparison == "within":
        return f"[{_format_deviation(interval.lo)}, {_format_deviation(interval.hi)}]"
    if clause_verdict.clause.is_ratio or clause_verdict.series is None:
        return f"[{interval.lo:.3f}, {interval.hi:.3f}]"
    metric = clause_verdict.series.metric
    factor = unit_conversion_factor(clause_verdict.clause, metric.unit)
    low, high = interval.lo * factor, interval.hi * factor
    scale = choose_display_scale((low, high), metric.unit, metric.name)
    return f"[{format_significant_digits(low / scale.factor)}, {scale.format_with_unit(high)}]"


def _format_deviation(ratio: float) -> str:
    return format_signed_percent(ratio - 1)


def _clause_line(clause_verdict: ClauseVerdict) -> str:
    """Format a clause as a nested list item; units may be foreign text, so values are code spans."""
    cell = f" {code_span(clause_verdict.series.cell)}" if clause_verdict.series else ""
    details = []
    if clause_verdict.estimate is not None:
        details.append(format_clause_value(clause_verdict, clause_verdict.estimate))
    if clause_verdict.interval:
        details.append(format_clause_interval(clause_verdict, clause_verdict.interval))
    details.append(clause_metric_and_reason(clause_verdict))
    glyph, clause = GLYPHS[clause_verdict.outcome], code_span(clause_verdict.clause.text)
    return f"  - {glyph} {clause}{cell}: {', '.join(code_span(detail) for detail in details if detail)}"
