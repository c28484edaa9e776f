"""Verdicts as rows of a Markdown table, by the kind of what they measure and the attention they deserve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import Interval, MetricClass, Series, Verdict, VerdictKind
from perfci.report.escaping import code_span, printable
from perfci.report.number_format import percent, signed_percent
from perfci.report.pulls.comparison_findings import Bar, is_worse, told_as
from perfci.report.verdict_labels import MOVES, is_suspicion, verdict_glyph
from perfci.report.verdict_sentences import advice, interval_text, level_texts

SECTIONS = {
    MetricClass.TIME: "Time",
    MetricClass.THROUGHPUT: "Time",
    MetricClass.TAIL: "Time",
    MetricClass.SLA: "Time",
    MetricClass.MEMORY: "Memory",
    MetricClass.COMPILE: "Compile and start time",
    MetricClass.COUNT: "Counts",
    MetricClass.NUMERICS: "Numerics",
    MetricClass.OTHER: "Other",
}
"""What is read together; a kilobyte does not compete with a millisecond for the same table."""

LEAST_NOISE = 0.005
"""A floor below half a percent says nothing more of how much attention a change deserves: else one operator more,
which is counted exactly, would stand above any slowdown."""

OUR_UNITS = frozenset({"seconds", "bytes", "count"})
"""Written in words of ours; a unit a suite made up is a foreign word like any other."""

NO_BREAK = "\N{NO-BREAK SPACE}"

Cell = Callable[[Verdict], str]


@dataclass(frozen=True, slots=True)
class Columns:
    """A table of verdicts: what stands above each column, how it is aligned, and what is written into it."""

    cells: Sequence[tuple[str, str, Cell]]

    @property
    def heading(self) -> str:
        names, rules = [name for name, _, _ in self.cells], [rule for _, rule, _ in self.cells]
        return f"| {' | '.join(names)} |\n|{'|'.join(rules)}|"

    def row(self, verdict: Verdict) -> str:
        return f"| {' | '.join(cell(verdict) for _, _, cell in self.cells)} |"


def by_attention(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """What no longer works first, then what is confirmed, each by its size against the noise."""
    return sorted(verdicts, key=lambda one: (one.kind is not VerdictKind.FAILED, not is_worse(one), *_weight(one)))


def worth_a_row(verdicts: Sequence[Verdict], most: int, bars: Mapping[Series, Bar]) -> list[Verdict]:
    """The first ones, but at least one of every section that has any."""
    first = {SECTIONS[bars[one.series].kind]: one for one in reversed(verdicts)}
    chosen = {id(one) for one in first.values()}
    others = [one for one in verdicts if id(one) not in chosen]
    chosen |= {id(one) for one in others[: max(0, most - len(chosen))]}
    return [one for one in verdicts if id(one) in chosen]


def moves(*, hardware: bool) -> Columns:
    """What changed, or stayed as it was."""
    return Columns([*NAMED, CHANGE, NOISE, *([HARDWARE] if hardware else [])])


def unchanged(*, hardware: bool) -> Columns:
    return Columns([*NAMED, CHANGE, NOISE, VISIBLE, *([HARDWARE] if hardware else [])])


def undecided(*, hardware: bool) -> Columns:
    decides = ("What would decide", "---", _what_would_decide)
    pairs = ("Pairs", "--:", lambda one: f"{one.pairs:,}" if one.pairs else "")
    return Columns([*NAMED, CHANGE, pairs, VISIBLE, decides, *([HARDWARE] if hardware else [])])


def not_compared(*, hardware: bool) -> Columns:
    told = ("What", "---", lambda one: f"{verdict_glyph(one)} {told_as(one)}")
    why = ("Why", "---", lambda one: code_span(one.reason, in_table=True) if one.reason else "")
    return Columns([told, *NAMED, why, *([HARDWARE] if hardware else [])])


def changed(verdict: Verdict) -> str:
    """``▲ **worse +18.3 %** [+15.9, +20.8]``: the word, the sign of the value and the interval."""
    if verdict.kind is VerdictKind.FAILED:
        return f"✕ **failed**{_reason(verdict)}"
    if verdict.kind not in MOVES:
        return f"{verdict_glyph(verdict)} {_change(verdict)}{_interval(verdict.interval)}".rstrip()
    suspected = "suspected " if is_suspicion(verdict) else ""
    told = f"{suspected}{'worse' if verdict.kind is VerdictKind.REGRESSION else 'better'}"
    if verdict.ratio is None:
        return f"{verdict_glyph(verdict)} **{told}**{_reason(verdict)}"
    return f"{verdict_glyph(verdict)} **{told} {_change(verdict)}**{_interval(verdict.interval)}"


def hardware_name(series: Series) -> str:
    """The machine class, and the environment someone chose where there is one."""
    return ", ".join(part for part in (series.machine.label, series.variant.label) if part)


def _levels(verdict: Verdict) -> list[str]:
    metric = verdict.series.metric
    texts = level_texts((verdict.base_level, verdict.head_level), metric)
    if metric.unit in OUR_UNITS:
        return [_together(text) for text in texts]
    return [code_span(text, in_table=True) if text else "" for text in texts]


def _change(verdict: Verdict) -> str:
    return "" if verdict.ratio is None else _together(signed_percent(verdict.ratio - 1))


def _together(text: str) -> str:
    """A number is not parted from its unit where a column is narrow."""
    return text.replace(" ", NO_BREAK)


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return ", exact" if interval.lo == interval.hi else f" {_together(interval_text(interval))}"


def _reason(verdict: Verdict) -> str:
    return f": {code_span(verdict.reason, in_table=True)}" if verdict.reason else ""


def _what_would_decide(verdict: Verdict) -> str:
    told = advice(verdict)
    return code_span(told, in_table=True) if verdict.reason and told == printable(verdict.reason) else told


def _weight(verdict: Verdict) -> tuple[float, str]:
    """The largest first: how many times the noise a change is."""
    if verdict.ratio is None or verdict.ratio <= 0:
        return -math.inf, verdict.series.label
    noise = max(verdict.noise_floor or 0.0, LEAST_NOISE)
    return -abs(math.log(verdict.ratio)) / noise, verdict.series.label


NAMED: tuple[tuple[str, str, Cell], ...] = (
    ("Benchmark", "---", lambda one: code_span(one.series.cell, in_table=True)),
    ("Metric", "---", lambda one: code_span(one.series.metric.name, in_table=True)),
    ("Base", "--:", lambda one: _levels(one)[0]),
    ("Head", "--:", lambda one: _levels(one)[1]),
)
CHANGE = ("Change [95 % CI]", "---", changed)
NOISE = ("Noise floor", "--:", lambda one: "" if one.noise_floor is None else _together(percent(one.noise_floor)))
VISIBLE = ("Would have shown", "--:", lambda one: "" if one.mde is None else _together(percent(one.mde)))
HARDWARE = ("Hardware", "---", lambda one: code_span(hardware_name(one.series), in_table=True))
