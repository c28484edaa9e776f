"""Verdicts as rows of a Markdown table, by the kind of what they measure and the attention they deserve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import Interval, MetricClass, Series, Verdict, VerdictKind
from perfci.report.escaping import code_span, make_printable
from perfci.report.number_format import format_percent, format_signed_percent
from perfci.report.pulls.comparison_findings import VerdictBar, headline_label, is_worse
from perfci.report.verdict_labels import CHANGE_KINDS, is_candidate, verdict_glyph
from perfci.report.verdict_sentences import format_interval, format_levels, verdict_advice

SECTION_TITLES = {
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

MIN_NOISE_FLOOR = 0.005
"""A floor below half a percent says nothing more of how much attention a change deserves: else one operator more,
which is counted exactly, would stand above any slowdown."""

KNOWN_UNITS = frozenset({"seconds", "bytes", "count"})
"""Written in words of ours; a unit a suite made up is a foreign word like any other."""

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

CellRenderer = Callable[[Verdict], str]


@dataclass(frozen=True, slots=True)
class VerdictColumns:
    """A table of verdicts: what stands above each column, how it is aligned, and what is written into it."""

    cells: Sequence[tuple[str, str, CellRenderer]]

    @property
    def heading(self) -> str:
        names, rules = [name for name, _, _ in self.cells], [rule for _, rule, _ in self.cells]
        return f"| {' | '.join(names)} |\n|{'|'.join(rules)}|"

    def render_row(self, verdict: Verdict) -> str:
        return f"| {' | '.join(cell(verdict) for _, _, cell in self.cells)} |"


def sort_by_attention(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """What no longer works first, then what is confirmed, each by its size against the noise."""
    return sorted(
        verdicts,
        key=lambda verdict: (
            verdict.kind is not VerdictKind.FAILED,
            not is_worse(verdict),
            *_attention_key(verdict),
        ),
    )


def select_rows(
    verdicts: Sequence[Verdict], max_rows: int, bars: Mapping[Series, VerdictBar]
) -> list[Verdict]:
    """The first ones, but at least one of every section that has any."""
    leading_rows = {
        SECTION_TITLES[bars[verdict.series].metric_class]: verdict for verdict in reversed(verdicts)
    }
    chosen = {id(verdict) for verdict in leading_rows.values()}
    others = [verdict for verdict in verdicts if id(verdict) not in chosen]
    chosen |= {id(verdict) for verdict in others[: max(0, max_rows - len(chosen))]}
    return [verdict for verdict in verdicts if id(verdict) in chosen]


def change_columns(*, hardware: bool) -> VerdictColumns:
    """What changed, or stayed as it was."""
    return VerdictColumns(
        [*IDENTITY_COLUMNS, CHANGE_COLUMN, NOISE_COLUMN, *([HARDWARE_COLUMN] if hardware else [])]
    )


def unchanged_columns(*, hardware: bool) -> VerdictColumns:
    return VerdictColumns(
        [*IDENTITY_COLUMNS, CHANGE_COLUMN, NOISE_COLUMN, MDE_COLUMN, *([HARDWARE_COLUMN] if hardware else [])]
    )


def inconclusive_columns(*, hardware: bool) -> VerdictColumns:
    decides = ("To decide", "---", _next_step_cell)
    pairs = ("Pairs", "--:", lambda verdict: f"{verdict.pairs:,}" if verdict.pairs else "")
    return VerdictColumns(
        [
            *IDENTITY_COLUMNS,
            CHANGE_COLUMN,
            pairs,
            MDE_COLUMN,
            decides,
            *([HARDWARE_COLUMN] if hardware else []),
        ]
    )


def not_compared_columns(*, hardware: bool) -> VerdictColumns:
    status = ("Status", "---", lambda verdict: f"{verdict_glyph(verdict)} {headline_label(verdict)}")
    reason = (
        "Reason",
        "---",
        lambda verdict: code_span(verdict.reason, in_table=True) if verdict.reason else "",
    )
    return VerdictColumns([status, *IDENTITY_COLUMNS, reason, *([HARDWARE_COLUMN] if hardware else [])])


def change_cell(verdict: Verdict) -> str:
    """``▲ **worse +18.3 %** [+15.9, +20.8]``: the word, the sign of the value and the interval."""
    if verdict.kind is VerdictKind.FAILED:
        return f"✕ **failed**{_reason_suffix(verdict)}"
    glyph = verdict_glyph(verdict)
    if verdict.kind not in CHANGE_KINDS:
        return f"{glyph} {_format_change(verdict)}{_interval_suffix(verdict.interval)}".rstrip()
    label = "worse" if verdict.kind is VerdictKind.REGRESSION else "better"
    if is_candidate(verdict):
        label = f"candidate: {label}"
    if verdict.ratio is None:
        return f"{glyph} **{label}**{_reason_suffix(verdict)}"
    return f"{glyph} **{label} {_format_change(verdict)}**{_interval_suffix(verdict.interval)}"


def hardware_name(series: Series) -> str:
    """The machine class, and the environment someone chose where there is one."""
    return ", ".join(part for part in (series.machine.label, series.variant.label) if part)


def _level_cells(verdict: Verdict) -> list[str]:
    metric = verdict.series.metric
    texts = format_levels((verdict.base_level, verdict.head_level), metric)
    if metric.unit in KNOWN_UNITS:
        return [_keep_together(text) for text in texts]
    return [code_span(text, in_table=True) if text else "" for text in texts]


def _format_change(verdict: Verdict) -> str:
    return "" if verdict.ratio is None else _keep_together(format_signed_percent(verdict.ratio - 1))


def _keep_together(text: str) -> str:
    """A number is not parted from its unit where a column is narrow."""
    return text.replace(" ", NO_BREAK_SPACE)


def _interval_suffix(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return ", exact" if interval.lo == interval.hi else f" {_keep_together(format_interval(interval))}"


def _reason_suffix(verdict: Verdict) -> str:
    return f": {code_span(verdict.reason, in_table=True)}" if verdict.reason else ""


def _next_step_cell(verdict: Verdict) -> str:
    advice = verdict_advice(verdict)
    # A reason quotes foreign text, so it must not be read as Markdown; our own advice is plain text.
    if verdict.reason and advice == make_printable(verdict.reason):
        return code_span(advice, in_table=True)
    return advice


def _attention_key(verdict: Verdict) -> tuple[float, str]:
    """The largest first: how many times the noise a change is."""
    if verdict.ratio is None or verdict.ratio <= 0:
        return -math.inf, verdict.series.label
    noise = max(verdict.noise_floor or 0.0, MIN_NOISE_FLOOR)
    return -abs(math.log(verdict.ratio)) / noise, verdict.series.label


IDENTITY_COLUMNS: tuple[tuple[str, str, CellRenderer], ...] = (
    ("Benchmark", "---", lambda verdict: code_span(verdict.series.cell, in_table=True)),
    ("Metric", "---", lambda verdict: code_span(verdict.series.metric.name, in_table=True)),
    ("Base", "--:", lambda verdict: _level_cells(verdict)[0]),
    ("Head", "--:", lambda verdict: _level_cells(verdict)[1]),
)
CHANGE_COLUMN = ("Change [95 % CI]", "---", change_cell)
NOISE_COLUMN = (
    "Noise floor",
    "--:",
    lambda verdict: (
        "" if verdict.noise_floor is None else _keep_together(format_percent(verdict.noise_floor))
    ),
)
MDE_COLUMN = (
    "Detectable (MDE)",
    "--:",
    lambda verdict: "" if verdict.mde is None else _keep_together(format_percent(verdict.mde)),
)
HARDWARE_COLUMN = ("Hardware", "---", lambda verdict: code_span(hardware_name(verdict.series), in_table=True))
