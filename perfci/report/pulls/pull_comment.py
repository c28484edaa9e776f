"""Render a comparison as GitHub Markdown, for pull request comment, job summary and check run.

All foreign text is in code spans or blocks, where GitHub reads no markup, mention or closing keyword;
the only link is to the report page.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from statistics import median

from perfci.model import Stage, Verdict, VerdictKind
from perfci.number_format import format_count, format_percent, format_signed_percent
from perfci.report.escaping import MAX_REASON_LENGTH, code_block, code_span, markdown_link
from perfci.report.goal_text import goal_markdown_lines
from perfci.report.pooled_verdict_text import render_pooled_verdict_markdown
from perfci.report.pulls import comment_tables as tables
from perfci.report.pulls.comment_row_selection import SECTION_TITLES
from perfci.report.pulls.comment_truncation import CommentBlock, render_blocks_within_limit
from perfci.report.pulls.comparison_findings import (
    IDENTICAL_INPUTS_NOTE,
    Findings,
    MeasurementOrder,
    has_exact_interval,
    leaves_question_open,
    may_fail_check,
    verdict_count_label,
)
from perfci.report.pulls.comparison_headline import build_comparison_headline
from perfci.report.variant_text import rejected_variant_name
from perfci.report.verdict_text import is_tail_moved_alone, tail_label
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.goals.goal_verdict import OUTCOMES_WORST_FIRST, GoalOutcome

MAX_COMMENT_BYTES = 60_000
"""Below GitHub's limits: 65,536 characters for a comment, 65,535 for the summary of a check."""

MAX_GOAL_LINES = 40
MAX_REJECTED = 10
MAX_PROFILED = 3
MAX_EXPLAINED = 3
MAX_TAILS = 3

MAX_COMMAND_BENCHMARKS = 10
"""The number of benchmarks named in a command; beyond it the command measures all."""

MEASUREMENT_ORDER_TEXTS: dict[MeasurementOrder, str] = {
    "in turns": "interleaved on one machine, alternating every few milliseconds",
    "interleaved": "interleaved on one machine",
    "recorded": "as recorded",
    "": "",
}

DECISION_RULE = (
    "Every sample comes from a fresh process; a pair is one process of each side, run back to back. "
    "**Worse** and **better**: the change exceeds the threshold (the smallest change that counts), "
    "the whole 95 % interval exceeds half of it, and it was confirmed on new pairs not used for screening. "
    "**Unchanged**: the whole interval lies within the threshold. **Inconclusive**: neither could be shown. "
    "The noise floor is the variation between A/A runs (a commit compared with itself)."
)
STRICT_DECISION_RULE = DECISION_RULE.replace(
    "the whole 95 % interval exceeds half of it", "so does the whole 95 % interval"
)
SEPARATE_RUNS_RULE = (
    "The head's uploads are compared with recent runs of the main branch on the same machine and in the same "
    "environment, since its level last changed. They were not measured side by side: the noise between those "
    "runs is that of a new one. "
    "**Worse** and **better**: the change exceeds the threshold (the smallest change that counts), "
    "the whole 95 % interval exceeds half of it, most runs of the head lie beyond all of those runs, "
    "and it holds when the false discovery rate of all series is controlled. "
    "**Unchanged**: the whole interval lies within the threshold. **Inconclusive**: neither could be shown. "
    "Separate runs have no noise floor (–)."
)
TAIL_RULE = (
    "p90 is what one sample in ten of a process exceeds (p10: falls short of, where more is better): "
    "judged beside the median on the same pairs at half the error, it fails no check."
)


def render_pull_comment(findings: Findings) -> str:
    """Render the whole comment below 60,000 bytes: counts stay complete, and omitted rows are counted."""
    rejected = [
        f"- ✕ rejected: {code_span(rejected_variant_name(rejection))}: "
        f"{code_span(rejection.reason, limit=MAX_REASON_LENGTH)}"
        for rejection in findings.rejections
    ]
    goals = sorted(findings.goals, key=lambda goal: OUTCOMES_WORST_FIRST.index(goal.outcome))
    parts = [
        CommentBlock(f"### perfci: {_headline(findings)}"),
        *(CommentBlock(line) for line in _summary_lines(findings) if line),
        *_expected_change_blocks(findings),
        *(
            [CommentBlock(render_pooled_verdict_markdown(findings.pooled).rstrip())]
            if findings.pooled
            else []
        ),
        *_limited_rows(rejected, MAX_REJECTED, "rejected variant"),
        *tables.regression_blocks(findings),
        *(CommentBlock(f"**Why**: {sentence}") for sentence in findings.explanations[:MAX_EXPLAINED]),
        *_profile_blocks(findings),
        *_limited_rows(goal_markdown_lines(goals), MAX_GOAL_LINES, "line"),
        *tables.main_drift_blocks(findings),
        *tables.other_verdict_table_blocks(findings),
        *tables.environment_difference_blocks(findings),
        *_decision_blocks(findings),
        *_reproduce_blocks(findings),
        *_accept_blocks(findings),
    ]
    return render_blocks_within_limit(parts, MAX_COMMENT_BYTES)


def should_comment(findings: Findings) -> bool:
    """Whether there is anything to report; an existing comment is updated in any case."""
    goals = any(goal.outcome is not GoalOutcome.MET for goal in findings.goals)
    pooled = findings.pooled is not None and findings.pooled.shows_change
    quiet = {"unchanged", "new", "not measured"}
    return (
        goals
        or pooled
        or bool(findings.rejections)
        or any(verdict_count_label(verdict) not in quiet for verdict in findings.primary_verdicts)
    )


def _headline(findings: Findings) -> str:
    headline = build_comparison_headline(findings)
    machines = list(dict.fromkeys(verdict.series.machine.label for verdict in findings.verdicts))
    machine = ""
    if len(machines) == 1:
        machine = f" on {code_span(machines[0])}"
    elif machines:
        machine = f" on {len(machines)} kinds of machine"
    trailing = f" ({headline.trailing})" if headline.trailing else ""
    return f"{headline.lead}{machine}{trailing}"


def _summary_lines(findings: Findings) -> list[str]:
    lines = [_sides_line(findings)]
    if findings.identical_inputs:
        lines.append(f"**Identical inputs:** {IDENTICAL_INPUTS_NOTE}")
    if findings.acceptance:
        lines.append(f"**Accepted:** {code_span(findings.acceptance)}")
    if findings.environment_changes:
        values = format_count(len(findings.environment_changes), "value")
        lines.append(
            f"**The environment differs** between base and head in {values}; it may explain the change."
        )
    return [*lines, _budget_warning(findings), _tail_line(findings), _sensitivity_line(findings)]


def _sides_line(findings: Findings) -> str:
    base, head = findings.base, findings.head
    merge_base = " (merge base)" if findings.merge_base else ""
    commits = f"Base {code_span(base.short_sha)}{merge_base} → head {code_span(head.short_sha)}"
    sides = code_span(findings.sides_label) if findings.sides_label else commits
    pair_counts = [verdict.pairs for verdict in findings.verdicts if verdict.pairs]
    pairs = format_count(pair_counts[0], "pair") if pair_counts else ""
    if len(set(pair_counts)) > 1:
        pairs = f"{min(pair_counts):,} to {max(pair_counts):,} pairs"
    page = markdown_link("full report", findings.report_url) if findings.report_url else ""
    order = MEASUREMENT_ORDER_TEXTS[findings.measurement_order]
    if runs := findings.separate_runs:
        order = (
            f"{format_count(runs.uploads, 'upload')} of this head against "
            f"{format_count(runs.base_runs, 'run')} of the main branch in {format_count(runs.days, 'day')}"
        )
    return " · ".join(part for part in (sides, pairs, order, page) if part)


def _expected_change_blocks(findings: Findings) -> list[CommentBlock]:
    """List the expected changes of the pull request, each with its outcome."""
    lines = []
    for expected in findings.expected_changes:
        declaration = code_span(f"{expected.match} {format_signed_percent(expected.change)}")
        outcome = expected_change_outcome(expected, findings.verdicts)
        if not expected.is_authorized:
            outcome += " (declared by someone without write access: it takes effect once accepted)"
        lines.append(f"- {declaration}: {outcome}. {code_span(expected.reason, limit=MAX_REASON_LENGTH)}")
    if not lines:
        return []
    # The first row is part of the heading, which is never cut.
    return [CommentBlock(f"**Expected changes** declared in the pull request:\n\n{lines[0]}", lines[1:])]


def expected_change_outcome(expected: ExpectedChange, verdicts: Iterable[Verdict]) -> str:
    """Compare an expected change with the regressions among verdicts."""
    worse = [
        verdict
        for verdict in verdicts
        if verdict.kind is VerdictKind.REGRESSION and expected.matches_series(verdict.series)
    ]
    if not worse:
        return "not observed"
    return "as expected" if all(map(expected.allows_verdict, worse)) else "larger than expected"


def _budget_warning(findings: Findings) -> str:
    if not findings.spent_budget:
        return ""
    open_count = sum(map(leaves_question_open, findings.primary_verdicts))
    undecided = f"{format_count(open_count, 'comparison')} undecided"
    outcome = undecided if open_count else "every comparison was decided"
    return f"**The time budget** of {code_span(findings.spent_budget)} is used up: {outcome}."


def _tail_line(findings: Findings) -> str:
    """Name the series of which the tail moved and not the median: they stand in folded tables."""
    moved = [verdict for verdict in findings.verdicts if is_tail_moved_alone(verdict)]
    if not moved:
        return ""
    named = [
        f"{code_span(verdict.series.label)} {verdict.series.metric.tail_name} {tail_label(verdict.tail)}"
        for verdict in moved[:MAX_TAILS]
        if verdict.tail
    ]
    more = f" and {len(moved) - len(named):,} more" if len(moved) > len(named) else ""
    return f"**Only the tail is known to have moved:** {', '.join(named)}{more}."


def _sensitivity_line(findings: Findings) -> str:
    """Say which effect was detectable in half of the series and in all; exact counts are left out."""
    effects = sorted(
        verdict.mde
        for verdict in findings.verdicts
        if verdict.mde is not None and not has_exact_interval(verdict)
    )
    if not effects:
        return ""
    in_half, in_all = format_percent(median(effects)), format_percent(effects[-1])
    if in_half == in_all:
        return f"Changes of {in_all} or more would have been detected with 80 % probability."
    return (
        f"Changes of {in_half} would have been detected in half of the series "
        f"and of {in_all} in all of them, with 80 % probability."
    )


def _limited_rows(lines: Sequence[str], limit: int, noun: str) -> list[CommentBlock]:
    shown = lines[:limit]
    if not lines:
        return []
    return [CommentBlock(rows=shown, hidden_rows=len(lines) - len(shown), row_noun=noun)]


def _profile_blocks(findings: Findings) -> list[CommentBlock]:
    if not findings.profiled_cells:
        return []
    names = ", ".join(map(code_span, findings.profiled_cells[:MAX_PROFILED]))
    return [
        CommentBlock(
            f"Profiles of {names} at base and head are in the `profiles/` folder of the job's artifact."
        )
    ]


def _decision_blocks(findings: Findings) -> list[CommentBlock]:
    """Explain the decision rule, the thresholds, and the reasons of the regressions shown."""
    if not findings.verdicts:
        return []
    rule = STRICT_DECISION_RULE if findings.strict else DECISION_RULE
    if all(verdict.stage is Stage.SEPARATE_RUNS for verdict in findings.verdicts):
        rule = SEPARATE_RUNS_RULE
    bars = set()
    for bar in findings.bars_by_series.values():
        change = format_percent(bar.min_change) if bar.min_change else "any change"
        bars.add(f"{SECTION_TITLES[bar.metric_class].lower()} {change}")
    reasons = [
        f"- {code_span(verdict.series.label)}: {code_span(verdict.reason, limit=MAX_REASON_LENGTH)}"
        for verdict in tables.select_unfolded_regressions(findings)
        if verdict.reason
    ]
    if any(verdict.tail for verdict in findings.verdicts):
        rule += f" {TAIL_RULE}"
    heading = f"{rule} Thresholds used: {', '.join(sorted(bars))}." + ("\n" if reasons else "")
    return [CommentBlock(heading, reasons, "How this was decided", row_noun="reason")]


def _reproduce_blocks(findings: Findings) -> list[CommentBlock]:
    """Show the command that measures the worse and open benchmarks again."""
    base, head = findings.base, findings.head
    selected = [
        verdict
        for verdict in findings.primary_verdicts
        if verdict.stage is not Stage.SEPARATE_RUNS
        and (may_fail_check(verdict) or leaves_question_open(verdict))
    ]
    if not selected:
        return []
    # A dirty head is the working tree, which compare takes where no head is named.
    commits = ["perfci", "compare", base.short_sha, *([] if head.dirty else [head.short_sha])]
    command = list(findings.reproduce_command or commits)
    if findings.smoke:
        command.append("--smoke")
    # A "." for other characters still matches the name, and is safe in any shell.
    names = dict.fromkeys(
        re.sub(r"[^A-Za-z0-9_.]", ".", verdict.series.benchmark.name) for verdict in selected
    )
    if len(names) <= MAX_COMMAND_BENCHMARKS:
        command += ["--bench", "|".join(names)]
    return [CommentBlock(code_block([shlex.join(command)], "sh"), summary="Reproduce")]


def _accept_blocks(findings: Findings) -> list[CommentBlock]:
    if (
        not findings.accept_command
        or findings.acceptance
        or not any(map(may_fail_check, findings.primary_verdicts))
    ):
        return []
    instruction = "Is this intended? Anyone with write access can accept it, with a reason, in a comment:"
    command = code_block([f"{findings.accept_command} REASON"])
    return [CommentBlock(f"{instruction}\n\n{command}", summary="Accept")]
