"""Build the tables of a comment: regressions by metric class, drift of main, and folded tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from perfci.model import Series, Verdict, VerdictKind
from perfci.number_format import format_count
from perfci.report.escaping import code_span
from perfci.report.pulls import comment_columns
from perfci.report.pulls.comment_columns import VerdictColumns
from perfci.report.pulls.comment_row_selection import (
    SECTION_TITLES,
    select_rows_per_section,
    sort_verdicts_by_attention,
)
from perfci.report.pulls.comment_truncation import CommentBlock
from perfci.report.pulls.comparison_findings import (
    CANDIDATE_REGRESSION,
    REMOVED,
    Findings,
    may_fail_check,
    verdict_count_label,
)
from perfci.report.verdict_text import CHANGE_KINDS, change_with_tail, part_of_whole_phrase

MAX_ROWS = 10
"""The number of regressions shown unfolded."""

MAX_FOLDED_ROWS = 50
"""The number of rows of a folded table; the report page has all of them."""

MAX_EXPLANATIONS = 6
"""The number of metrics named that moved with a regression."""

SECTIONS = tuple(dict.fromkeys(SECTION_TITLES.values()))
MISSING_LABELS = (REMOVED, "not comparable", "new", "not measured")


def regression_blocks(findings: Findings) -> list[CommentBlock]:
    """Build a table of regressions for each metric class, and a folded one for the rest."""
    columns = comment_columns.change_columns(hardware=_has_mixed_hardware(findings))
    worse, shown = _worse_verdicts(findings), select_unfolded_regressions(findings)
    sections = _sections_by_series(findings)
    totals = Counter(sections[verdict.series] for verdict in worse)
    blocks = []
    for name in SECTIONS:
        rows = [verdict for verdict in shown if sections[verdict.series] == name]
        if rows:
            blocks.append(CommentBlock(f"**{name}**: {totals[name]:,} worse"))
            blocks.append(
                CommentBlock(columns.heading_lines, [columns.render_row(verdict) for verdict in rows])
            )
            if explanations := _explanation_lines(findings, rows):
                blocks.append(CommentBlock(rows=explanations, row_noun="explanation"))
    shown_ids = {id(verdict) for verdict in shown}
    rest = [verdict for verdict in worse if id(verdict) not in shown_ids]
    return [*blocks, *_table_blocks(rest, columns, f"{len(rest):,} more worse")]


def select_unfolded_regressions(findings: Findings) -> list[Verdict]:
    """Select the regressions that are shown unfolded."""
    return select_rows_per_section(_worse_verdicts(findings), MAX_ROWS, findings.bars_by_series)


def main_drift_blocks(findings: Findings) -> list[CommentBlock]:
    """Build the table of changes on main since the merge base, next to those of the pull request."""
    if findings.main_head is None:
        return []
    changed = sort_verdicts_by_attention(
        verdict for verdict in findings.main_drift if verdict.kind in {*CHANGE_KINDS, VerdictKind.FAILED}
    )
    title = f"**Main since the merge base** (now {code_span(findings.main_head.short_sha)})"
    if not changed:
        return [CommentBlock(f"{title}: nothing changed on main.")]
    verdict_by_series = {verdict.series: verdict for verdict in findings.verdicts}
    lines = []
    for on_main in changed[:MAX_ROWS]:
        on_head = verdict_by_series.get(on_main.series)
        head_change = comment_columns.change_cell(on_head) if on_head else "not measured"
        cell, metric = _code_cell(on_main.series.cell), _code_cell(on_main.series.metric.name)
        lines.append(f"| {cell} | {metric} | {head_change} | {comment_columns.change_cell(on_main)} |")
    heading = "| Benchmark | Metric | This pull request | Main |\n|---|---|---|---|"
    return [
        CommentBlock(f"{title}: {format_count(len(changed), 'series', 'series')} changed on main."),
        CommentBlock(heading, lines, hidden_rows=len(changed) - len(lines)),
    ]


def other_verdict_table_blocks(findings: Findings) -> list[CommentBlock]:
    """Build the folded tables of all other verdicts; expanded if there is no regression."""
    expanded, hardware = not _worse_verdicts(findings), _has_mixed_hardware(findings)
    better, inconclusive, missing, unchanged = (_verdicts_of_kinds(findings, kinds) for kinds in FOLDED_KINDS)
    counts = [group.primary for group in findings.verdict_groups if not group.gates]
    labels = [verdict_count_label(verdict) for verdict in missing]
    missing_summary = [f"{labels.count(label):,} {label}" for label in MISSING_LABELS if label in labels]
    return [
        *_table_blocks(
            better,
            comment_columns.change_columns(hardware=hardware),
            f"{len(better):,} better",
            expanded=expanded,
        ),
        *_table_blocks(
            inconclusive,
            comment_columns.inconclusive_columns(hardware=hardware),
            f"{len(inconclusive):,} inconclusive",
            expanded=expanded,
        ),
        *_table_blocks(
            missing,
            comment_columns.not_compared_columns(hardware=hardware),
            ", ".join(missing_summary),
            expanded=expanded,
        ),
        *_table_blocks(
            unchanged, comment_columns.unchanged_columns(hardware=hardware), f"{len(unchanged):,} unchanged"
        ),
        *_table_blocks(
            counts,
            comment_columns.change_columns(hardware=hardware),
            f"{format_count(len(counts), 'count')} moved that gate nothing",
        ),
    ]


FOLDED_KINDS = (
    {VerdictKind.IMPROVEMENT},
    {VerdictKind.INCONCLUSIVE},
    {VerdictKind.MISSING, VerdictKind.NOT_COMPARABLE},
    {VerdictKind.UNCHANGED},
)
"""The kinds of each folded table, in order."""


def environment_difference_blocks(findings: Findings) -> list[CommentBlock]:
    """Build the table of environment differences between base and head."""
    changes = findings.environment_changes[:MAX_FOLDED_ROWS]
    lines = [
        f"| {_code_cell(change.name)} | {_code_cell(change.before)} | {_code_cell(change.after)} |"
        for change in changes
    ]
    summary = format_count(len(findings.environment_changes), "environment difference")
    more = len(findings.environment_changes) - len(lines)
    if not lines:
        return []
    heading = "| | Base | Head |\n|---|---|---|"
    return [CommentBlock(heading, lines, summary, hidden_rows=more, row_noun="value")]


def _worse_verdicts(findings: Findings) -> list[Verdict]:
    return sort_verdicts_by_attention(
        verdict
        for verdict in findings.primary_verdicts
        if may_fail_check(verdict) or verdict_count_label(verdict) == CANDIDATE_REGRESSION
    )


def _explanation_lines(findings: Findings, rows: Sequence[Verdict]) -> list[str]:
    """Say beside each row what else moved with it: related metrics and counts."""
    groups = {id(group.primary): group for group in findings.verdict_groups}
    lines = []
    for verdict in rows:
        group = groups.get(id(verdict))
        others = group.secondary if group else ()
        shown = [f"{code_span(other.series.metric.name)} {change_with_tail(other)}" for other in others]
        more = [f"and {len(shown) - MAX_EXPLANATIONS} more"] if len(shown) > MAX_EXPLANATIONS else []
        if shown:
            name = code_span(verdict.series.label)
            lines.append(f"- {name} with {', '.join([*shown[:MAX_EXPLANATIONS], *more])}")
        if group and group.whole:
            phrase = part_of_whole_phrase(verdict, group.whole)
            lines.append(f"- {code_span(verdict.series.label)} {phrase}")
    return lines


def _verdicts_of_kinds(findings: Findings, kinds: Iterable[VerdictKind]) -> list[Verdict]:
    """Select verdicts, removed benchmarks before new ones, then by section."""
    selected = sort_verdicts_by_attention(
        verdict for verdict in findings.primary_verdicts if verdict.kind in kinds
    )
    sections = _sections_by_series(findings)

    def sort_key(verdict: Verdict) -> tuple[int, int]:
        label = verdict_count_label(verdict)
        missing_rank = MISSING_LABELS.index(label) if label in MISSING_LABELS else 0
        return missing_rank, SECTIONS.index(sections[verdict.series])

    return sorted(selected, key=sort_key)


def _sections_by_series(findings: Findings) -> dict[Series, str]:
    return {series: SECTION_TITLES[bar.metric_class] for series, bar in findings.bars_by_series.items()}


def _table_blocks(
    verdicts: Sequence[Verdict], columns: VerdictColumns, summary: str, *, expanded: bool = False
) -> list[CommentBlock]:
    lines = [columns.render_row(verdict) for verdict in verdicts[:MAX_FOLDED_ROWS]]
    if not lines:
        return []
    return [
        CommentBlock(columns.heading_lines, lines, summary, expanded, hidden_rows=len(verdicts) - len(lines))
    ]


def _has_mixed_hardware(findings: Findings) -> bool:
    return (
        len({comment_columns.machine_and_variant_label(verdict.series) for verdict in findings.verdicts}) > 1
    )


def _code_cell(text: str) -> str:
    return code_span(text, in_table=True) if text else "not recorded"
