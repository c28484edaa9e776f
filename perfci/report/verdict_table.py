"""Format verdicts as aligned plain-text tables for terminals, most severe first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perfci.model import Verdict
from perfci.number_format import format_percent, format_signed_percent
from perfci.report.escaping import make_printable
from perfci.report.page_summaries import comparison_summary
from perfci.report.text_table import align_table
from perfci.report.verdict_groups import VerdictGroup
from perfci.report.verdict_text import (
    change_with_tail,
    format_in_common_unit,
    format_interval,
    format_noise_floor,
    next_step_or_reason,
    part_of_whole_phrase,
    rank_verdicts_by_severity,
    tail_cell,
    verdict_glyph,
    verdict_label,
)

HEADINGS = (
    "",
    "verdict",
    "benchmark",
    "metric",
    "base",
    "head",
    "change",
    "95 % interval",
    "tail",
    "pairs",
    "noise",
    "MDE",
)
LEFT_ALIGNED = frozenset({0, 1, 2, 3})
"""The columns that hold words; numbers are right-aligned."""


def format_comparison(groups: Sequence[VerdictGroup]) -> str:
    """Format a whole comparison for a terminal: sentence, table, what explains its changes, and advice."""
    primary_verdicts = [group.primary for group in groups if group.gates]
    parts = [
        str(comparison_summary(primary_verdicts, compared=bool(groups))),
        format_verdict_table(primary_verdicts),
        _format_explanations(groups),
        format_next_steps_or_reasons(primary_verdicts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def format_verdict_table(verdicts: Iterable[Verdict]) -> str:
    """Format one aligned line per verdict; empty without verdicts."""
    rows = [_verdict_row(verdict) for verdict in rank_verdicts_by_severity(verdicts)]
    return align_table(HEADINGS, rows, LEFT_ALIGNED) if rows else ""


def format_next_steps_or_reasons(verdicts: Iterable[Verdict]) -> str:
    """Format the advice for each verdict that has any, one per line."""
    open_verdicts = [
        verdict for verdict in rank_verdicts_by_severity(verdicts) if next_step_or_reason(verdict)
    ]
    return "\n".join(
        f"{verdict_glyph(verdict)} {make_printable(verdict.series.label)}: {next_step_or_reason(verdict)}"
        for verdict in open_verdicts
    )


def _format_explanations(groups: Sequence[VerdictGroup]) -> str:
    """Name what moved with each change, and the counts that moved alone and gate nothing."""
    lines = [
        f"{verdict_glyph(group.primary)} {make_printable(group.primary.series.label)} {phrase}"
        for group in groups
        for phrase in explanation_phrases(group)
    ]
    counts = [group.primary for group in groups if not group.gates]
    moved = [f"{make_printable(verdict.series.cell)} · {_metric_change(verdict)}" for verdict in counts]
    return "\n".join([*lines, *([f"moved and gate nothing: {'; '.join(moved)}"] if moved else [])])


def explanation_phrases(group: VerdictGroup) -> list[str]:
    """Say what moved with a change, and what the whole did where only a part of it moved."""
    phrases = []
    if group.secondary:
        phrases.append(f"with {', '.join(map(_metric_change, group.secondary))}")
    if group.whole:
        phrases.append(part_of_whole_phrase(group.primary, group.whole))
    return phrases


def _metric_change(verdict: Verdict) -> str:
    return f"{make_printable(verdict.series.metric.name)} {change_with_tail(verdict)}"


def _verdict_row(verdict: Verdict) -> tuple[str, ...]:
    metric = verdict.series.metric
    return (
        verdict_glyph(verdict),
        verdict_label(verdict),
        make_printable(verdict.series.cell),
        make_printable(metric.name),
        *format_in_common_unit((verdict.base_level, verdict.head_level), metric),
        "" if verdict.ratio is None else format_signed_percent(verdict.ratio - 1),
        "" if verdict.interval is None else format_interval(verdict.interval),
        tail_cell(verdict),
        str(verdict.pairs) if verdict.pairs else "",
        format_noise_floor(verdict),
        "" if verdict.mde is None else format_percent(verdict.mde),
    )
