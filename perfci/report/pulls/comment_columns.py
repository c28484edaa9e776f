"""Define the columns of the Markdown tables of verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfci.model import Interval, Series, Verdict, VerdictKind
from perfci.number_format import format_percent, format_signed_percent
from perfci.report.escaping import MAX_REASON_LENGTH, code_span, make_printable
from perfci.report.pulls.comparison_findings import verdict_count_label
from perfci.report.verdict_text import (
    CHANGE_KINDS,
    format_in_common_unit,
    format_interval,
    format_noise_floor,
    is_candidate,
    next_step_or_reason,
    tail_label,
    verdict_glyph,
)

KNOWN_UNITS = frozenset({"seconds", "bytes", "count"})
"""Units written as plain text; a unit defined by a suite is foreign text and becomes a code span."""

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"

CellRenderer = Callable[[Verdict], str]
"""Renders one table cell of a verdict."""


@dataclass(frozen=True, slots=True)
class VerdictColumns:
    """The columns of a table: heading, alignment and renderer of each."""

    cells: Sequence[tuple[str, str, CellRenderer]]

    @property
    def heading_lines(self) -> str:
        """The two heading lines of the table."""
        names, rules = [name for name, _, _ in self.cells], [rule for _, rule, _ in self.cells]
        return f"| {' | '.join(names)} |\n|{'|'.join(rules)}|"

    def render_row(self, verdict: Verdict) -> str:
        """Render one row."""
        return f"| {' | '.join(cell(verdict) for _, _, cell in self.cells)} |"


def change_columns(*, hardware: bool) -> VerdictColumns:
    """Build the columns for changes."""
    return VerdictColumns(
        [*IDENTITY_COLUMNS, CHANGE_COLUMN, NOISE_COLUMN, *([HARDWARE_COLUMN] if hardware else [])]
    )


def unchanged_columns(*, hardware: bool) -> VerdictColumns:
    """Build the columns for unchanged series, with their minimum detectable effect."""
    return VerdictColumns(
        [*IDENTITY_COLUMNS, CHANGE_COLUMN, NOISE_COLUMN, MDE_COLUMN, *([HARDWARE_COLUMN] if hardware else [])]
    )


def inconclusive_columns(*, hardware: bool) -> VerdictColumns:
    """Build the columns for inconclusive series, with the next step."""
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
    """Build the columns for series that were not compared, with the reason."""
    status = ("Status", "---", lambda verdict: f"{verdict_glyph(verdict)} {verdict_count_label(verdict)}")
    reason = (
        "Reason",
        "---",
        lambda verdict: _format_reason(verdict.reason) if verdict.reason else "",
    )
    return VerdictColumns([status, *IDENTITY_COLUMNS, reason, *([HARDWARE_COLUMN] if hardware else [])])


def change_cell(verdict: Verdict) -> str:
    """Format a change, and on a second line that of the tail: ``▲ **worse +18.3 %** [+15.9, +20.8]``."""
    tail = f"<br>{_tail_line(verdict)}" if verdict.tail else ""
    return f"{_median_change(verdict)}{tail}"


def _median_change(verdict: Verdict) -> str:
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


def machine_and_variant_label(series: Series) -> str:
    """Return the machine class, and the selected environment if there is one."""
    return ", ".join(part for part in (series.machine.label, series.variant.label) if part)


def _level_cells(verdict: Verdict) -> list[str]:
    metric = verdict.series.metric
    texts = format_in_common_unit((verdict.base_level, verdict.head_level), metric)
    if metric.unit in KNOWN_UNITS:
        return [_keep_together(text) for text in texts]
    return [code_span(text, in_table=True) if text else "" for text in texts]


def _format_change(verdict: Verdict) -> str:
    return "" if verdict.ratio is None else _keep_together(format_signed_percent(verdict.ratio - 1))


def _tail_line(verdict: Verdict) -> str:
    """Format the change of the tail: ``p90 ▲ **worse +22.0 %** [+14.1, +30.3]``."""
    tail = verdict.tail
    assert tail is not None
    size = _keep_together(format_signed_percent(tail.ratio - 1))
    interval = f" {_keep_together(format_interval(tail.interval))}" if tail.interval else ""
    name = verdict.series.metric.tail_name
    if tail.kind not in CHANGE_KINDS:
        return f"{name} {tail_label(tail)} {size}{interval}"
    glyph, word = tail_label(tail).split()
    return f"{name} {glyph} **{word} {size}**{interval}"


def _keep_together(text: str) -> str:
    """Replace spaces so that a narrow column does not separate a number from its unit."""
    return text.replace(" ", NO_BREAK_SPACE)


def _interval_suffix(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return ", exact" if interval.lo == interval.hi else f" {_keep_together(format_interval(interval))}"


def _reason_suffix(verdict: Verdict) -> str:
    return f": {_format_reason(verdict.reason)}" if verdict.reason else ""


def _format_reason(reason: str) -> str:
    """Format the sentence that explains a verdict, whole, as foreign text."""
    return code_span(reason, in_table=True, limit=MAX_REASON_LENGTH)


def _next_step_cell(verdict: Verdict) -> str:
    advice = next_step_or_reason(verdict)
    # A reason quotes foreign text, so it must not be read as Markdown; our own advice is plain text.
    if verdict.reason and advice == make_printable(verdict.reason, MAX_REASON_LENGTH):
        return _format_reason(advice)
    return advice


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
    lambda verdict: _keep_together(format_noise_floor(verdict)),
)
MDE_COLUMN = (
    "Detectable (MDE)",
    "--:",
    lambda verdict: "" if verdict.mde is None else _keep_together(format_percent(verdict.mde)),
)
HARDWARE_COLUMN = (
    "Hardware",
    "---",
    lambda verdict: code_span(machine_and_variant_label(verdict.series), in_table=True),
)
