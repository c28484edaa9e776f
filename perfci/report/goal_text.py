"""Goals in words: one word for each, every clause with its own interval, and what speed was paid with."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Interval, cell_name
from perfci.report.escaping import code_span, printable
from perfci.report.number_format import measured, quantity, scale_of, signed_percent
from perfci.report.text_tables import aligned
from perfci.report.verdict_sentences import moved
from perfci.verdicts.goals.goal_clauses import scale
from perfci.verdicts.goals.goal_verdict import ClauseVerdict, GoalVerdict, Outcome
from perfci.verdicts.goals.tradeoffs import Trade
from perfci.verdicts.variants.variant_contrast import owner

GLYPHS = {Outcome.MET: "✓", Outcome.BROKEN: "✕", Outcome.UNDECIDED: "?", Outcome.REJECTED: "✕"}
HEADINGS = ("", "clause", "benchmark", "found", "95 % interval", "")
LEFT = frozenset({0, 1, 2, 5})


def goals_text(goals: Sequence[GoalVerdict]) -> str:
    """Everything a terminal shows of the goals; empty where there are none."""
    return "\n".join(_goal(one) for one in goals)


def goals_markdown(goals: Sequence[GoalVerdict]) -> str:
    """The same as Markdown: a line for each goal, its clauses below it."""
    return "".join(f"{line}\n" for line in goal_lines(goals))


def goal_lines(goals: Sequence[GoalVerdict]) -> list[str]:
    """The lines of a Markdown list, every foreign word inside a code span."""
    return [line for goal in goals for line in _goal_lines(goal)]


def _goal(goal: GoalVerdict) -> str:
    rows = [_row(clause) for clause in goal.clauses]
    parts = [headline(goal)]
    if rows:
        parts += [f"  {line}" for line in aligned(HEADINGS, rows, LEFT).splitlines()]
    parts += [f"  ⇄ {trade_sentence(trade)}" for trade in goal.trades]
    return "\n".join(parts) + "\n"


def headline(goal: GoalVerdict) -> str:
    """``goal fast enough, attn=flash: broken``, and why where no clause says so."""
    about = f", {printable(goal.about)}" if goal.about else ""
    trade = ", a trade" if goal.trades else ""
    why = f": {printable(goal.reason, 300)}" if goal.reason else ""
    return f"{GLYPHS[goal.outcome]} goal {printable(goal.name)}{about}: {goal.outcome.value}{trade}{why}"


def trade_sentence(trade: Trade) -> str:
    """``a trade at model.Gpt('flash', 8): step_time got 31.0 % faster, but peak needs 18.2 % more memory``."""
    series = trade.gain.series
    where = cell_name(owner(series.benchmark.name) or series.benchmark.name, series.parameters)
    return f"a trade at {printable(where)}: {_moved(trade, gain=True)}, but {_moved(trade, gain=False)}"


def _moved(trade: Trade, *, gain: bool) -> str:
    verdict = trade.gain if gain else trade.cost
    metric = verdict.series.metric
    return f"{printable(metric.name)} {moved(verdict.ratio, metric)}" if verdict.ratio else printable(metric.name)


def _row(found: ClauseVerdict) -> tuple[str, ...]:
    return (
        GLYPHS[found.outcome],
        printable(found.clause.text),
        printable(found.series.cell) if found.series else "",
        "" if found.estimate is None else value_text(found, found.estimate),
        "" if found.interval is None else interval_text(found, found.interval),
        note(found),
    )


def note(found: ClauseVerdict) -> str:
    """What is to be said beside the numbers: another name of what was judged, or why nothing was."""
    judged = found.series.metric.name if found.series else ""
    name = f"judged by {printable(judged)}" if judged and judged != found.clause.metric else ""
    return "; ".join(part for part in (name, printable(found.reason, 200)) if part)


def value_text(found: ClauseVerdict, value: float) -> str:
    """A ratio as ``0.671x``, a deviation as ``+0.3 %``, a level in the unit that suits it."""
    if found.clause.comparison == "within":
        return _deviation(value)
    if found.clause.of_ratio or found.series is None:
        return f"{value:.3f}x"
    metric = found.series.metric
    return quantity(value * scale(found.clause, metric.unit), metric.unit, metric.name)


def interval_text(found: ClauseVerdict, interval: Interval) -> str:
    if interval.lo == interval.hi:
        return "exact"
    if found.clause.comparison == "within":
        return f"[{_deviation(interval.lo)}, {_deviation(interval.hi)}]"
    if found.clause.of_ratio or found.series is None:
        return f"[{interval.lo:.3f}, {interval.hi:.3f}]"
    metric = found.series.metric
    per = scale(found.clause, metric.unit)
    shown = scale_of((interval.lo * per, interval.hi * per), metric.unit, metric.name)
    return f"[{measured(interval.lo * per / shown.factor)}, {shown.text(interval.hi * per)}]"


def _deviation(ratio: float) -> str:
    return signed_percent(ratio - 1)


def _goal_lines(goal: GoalVerdict) -> list[str]:
    about = f", {code_span(goal.about)}" if goal.about else ""
    trade = ", a trade" if goal.trades else ""
    lines = [f"- {GLYPHS[goal.outcome]} goal {code_span(goal.name)}{about}: **{goal.outcome.value}**{trade}"]
    lines += [f"  - {code_span(goal.reason)}"] if goal.reason else []
    lines += [_clause_line(found) for found in goal.clauses]
    return lines + [f"  - ⇄ {code_span(trade_sentence(one))}" for one in goal.trades]


def _clause_line(found: ClauseVerdict) -> str:
    """What was found is told in a unit, which a suite may have made up."""
    cell = f" {code_span(found.series.cell)}" if found.series else ""
    known = [code_span(value_text(found, found.estimate))] if found.estimate is not None else []
    known += [code_span(interval_text(found, found.interval))] if found.interval else []
    said = [code_span(note(found))] if note(found) else []
    return f"  - {GLYPHS[found.outcome]} {code_span(found.clause.text)}{cell}: {', '.join([*known, *said])}"
