"""A comparison as GitHub Markdown: the comment of a pull request, the job summary, the check run and the file.

Every foreign word stands in a code span or block, where GitHub reads no markup, mention or closing word; the only link
is to our own page.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from statistics import median

from perfci.model import Verdict
from perfci.report.escaping import code_block, code_span, link
from perfci.report.goal_text import goal_lines
from perfci.report.number_format import counting, percent, signed_percent
from perfci.report.pooled_text import pooled_markdown
from perfci.report.pulls import comment_tables as tables
from perfci.report.pulls.comment_columns import SECTIONS
from perfci.report.pulls.comparison_findings import (
    ALIKE,
    Bar,
    Findings,
    Manner,
    headline,
    is_exact,
    is_open,
    is_worse,
    told_as,
)
from perfci.report.pulls.truncation import Block, fitted
from perfci.report.variant_text import rejected_name
from perfci.report.verdict_sentences import LONGEST_REASON
from perfci.verdicts.goals.goal_verdict import WORST_FIRST, Outcome

LIMIT = 60_000
"""GitHub takes 65,536 characters of a comment and 65,535 of the summary of a check."""

MOST_LINES = 40
MOST_REJECTED = 10
MOST_PROFILED = 3

MOST_COMMAND = 10
"""Benchmarks named in a command; where it is about more, all are measured."""

MANNERS: dict[Manner, str] = {
    "in turns": "interleaved on one machine, in turns of a few milliseconds",
    "interleaved": "interleaved on one machine",
    "recorded": "as recorded",
    "": "",
}

RULE = (
    "Every sample comes from a fresh process; a pair is one process of each side, measured next to each other. "
    "**Worse** and **better**: the change is beyond the bar and the whole 95 % interval beyond half of it, on fresh "
    "pairs that no earlier look has seen. **Unchanged**: the whole interval is inside the bar. **Inconclusive**: "
    "neither. The noise floor is what equal commits show."
)
STRICT_RULE = RULE.replace("and the whole 95 % interval beyond half of it", "and so is the whole 95 % interval")


def comment(findings: Findings) -> str:
    """All of it in fewer than 60,000 bytes: the counts are always whole, and what is left out is said."""
    alike = f"**Equals:** {ALIKE}" if findings.alike else ""
    told = _sides(findings), alike, _accepted(findings), _environment(findings), _budget(findings), _visible(findings)
    parts = [
        Block(f"### perfci: {_title(findings)}"),
        *(Block(line) for line in told if line),
        *_announced(findings),
        *_pooled(findings),
        *_rejected(findings),
        *tables.worse(findings),
        *_profiled(findings),
        *_goals(findings),
        *tables.drift(findings),
        *tables.folded(findings),
        *tables.environment(findings),
        *_how(findings),
        *_reproduce(findings),
        *_accept(findings),
    ]
    return fitted(parts, LIMIT)


def worth_a_comment(findings: Findings) -> bool:
    """Whether there is anything to say unasked; a comment that stands already is kept true in any case."""
    goals = any(goal.outcome is not Outcome.MET for goal in findings.goals)
    pooled = findings.pooled is not None and findings.pooled.is_finding
    quiet = {"unchanged", "new", "not measured"}
    return goals or pooled or bool(findings.rejected) or any(told_as(one) not in quiet for one in findings.verdicts)


def _title(findings: Findings) -> str:
    told = headline(findings)
    kinds = list(dict.fromkeys(one.series.machine.label for one in findings.verdicts))
    where = f" on {code_span(kinds[0])}" if len(kinds) == 1 else f" on {len(kinds)} kinds of machine" if kinds else ""
    return f"{told.lead}{where}" + (f" ({told.rest})" if told.rest else "")


def _sides(findings: Findings) -> str:
    base, head = findings.base, findings.head
    merge_base = " (merge base)" if findings.merge_base else ""
    commits = f"Base {code_span(base.short)}{merge_base} → head {code_span(head.short)}"
    sides = code_span(findings.sides) if findings.sides else commits
    page = link("full report", findings.page) if findings.page else ""
    return " · ".join(part for part in (sides, _pairs(findings), MANNERS[findings.manner], page) if part)


def _pairs(findings: Findings) -> str:
    known = [one.pairs for one in findings.verdicts if one.pairs]
    if not known:
        return ""
    return counting(known[0], "pair") if len(set(known)) == 1 else f"{min(known):,} to {max(known):,} pairs"


def _accepted(findings: Findings) -> str:
    return f"**Accepted:** {code_span(findings.accepted)}" if findings.accepted else ""


def _announced(findings: Findings) -> list[Block]:
    """What the pull request said of itself beforehand, and what was found of it."""
    lines = []
    for one in findings.announced:
        what = code_span(f"{one.match} {signed_percent(one.change)}")
        only_told = "" if one.counts else ", by somebody who may not write here: it counts once it is accepted"
        lines.append(f"- {what}: {one.kept(findings.verdicts)}{only_told}. {code_span(one.reason)}")
    return [Block(f"**Announced** in the pull request:\n\n{lines[0]}", lines[1:])] if lines else []


def _environment(findings: Findings) -> str:
    if not findings.environment:
        return ""
    values = counting(len(findings.environment), "value")
    return f"**The environment differs** between base and head in {values}: what changed may be its doing."


def _budget(findings: Findings) -> str:
    if not findings.budget:
        return ""
    open_ones = sum(is_open(one) for one in findings.verdicts)
    left = f"{counting(open_ones, 'question')} left open" if open_ones else "no question was left open"
    return f"**The time budget** of {code_span(findings.budget)} is spent: {left}."


def _visible(findings: Findings) -> str:
    """What could have been seen, with a history or without; a value that is counted exactly hides nothing."""
    known = sorted(one.mde for one in findings.verdicts if one.mde is not None and not is_exact(one))
    if not known:
        return ""
    half, most = percent(median(known)), percent(known[-1])
    if half == most:
        return f"A change of {most} would have shown, four times out of five."
    return f"A change of {half} would have shown in half of the series, one of {most} in all, four times out of five."


def _pooled(findings: Findings) -> list[Block]:
    return [Block(pooled_markdown(findings.pooled).rstrip())] if findings.pooled else []


def _rejected(findings: Findings) -> list[Block]:
    lines = [f"- ✕ rejected: {code_span(rejected_name(one))}: {code_span(one.reason)}" for one in findings.rejected]
    shown = lines[:MOST_REJECTED]
    return [Block(rows=shown, more=len(lines) - len(shown), thing="rejected variant")] if lines else []


def _profiled(findings: Findings) -> list[Block]:
    if not findings.profiled:
        return []
    names = ", ".join(map(code_span, findings.profiled[:MOST_PROFILED]))
    return [Block(f"Profiles of {names} at base and head are in `profiles/` of the job's artifact.")]


def _goals(findings: Findings) -> list[Block]:
    lines = goal_lines(sorted(findings.goals, key=lambda goal: WORST_FIRST.index(goal.outcome)))
    shown = lines[:MOST_LINES]
    return [Block(rows=shown, more=len(lines) - len(shown), thing="line")] if lines else []


def _how(findings: Findings) -> list[Block]:
    """The rule, the bars, and why what is shown above is what it is."""
    if not findings.verdicts:
        return []
    rule = STRICT_RULE if findings.strict else RULE
    bars = ", ".join(sorted({_bar(one) for one in findings.held_to.values()}))
    told = [
        f"- {code_span(one.series.label)}: {code_span(one.reason, limit=LONGEST_REASON)}"
        for one in tables.shown(findings)
        if one.reason
    ]
    heading = f"{rule} Bars here: {bars}." + ("\n" if told else "")
    return [Block(heading, told, "How this was decided", thing="reason")]


def _reason(verdict: Verdict) -> str:
    return f"- {code_span(verdict.series.label)}: {code_span(verdict.reason, limit=LONGEST_REASON)}"


def _bar(bar: Bar) -> str:
    return f"{SECTIONS[bar.kind].lower()} {percent(bar.size) if bar.size else 'any change'}"


def _reproduce(findings: Findings) -> list[Block]:
    """The command that measures the same again, for what is worse or open."""
    base, head = findings.base, findings.head
    again = [one for one in findings.verdicts if is_worse(one) or is_open(one)]
    if not again:
        return []
    commits = ["perfci", "compare", base.short, *([] if head.dirty else [head.short])]
    command = list(findings.command or commits)
    pattern = _pattern(again)
    command += [*(["--smoke"] if findings.smoke else []), *(["--bench", pattern] if pattern else [])]
    return [Block(code_block([shlex.join(command)], "sh"), summary="Reproduce")]


def _pattern(verdicts: Sequence[Verdict]) -> str:
    """An expression for ``--bench`` that no shell can misread: what is no plain character matches any."""
    names = dict.fromkeys(re.sub(r"[^A-Za-z0-9_.]", ".", one.series.benchmark.name) for one in verdicts)
    return "|".join(names) if len(names) <= MOST_COMMAND else ""


def _accept(findings: Findings) -> list[Block]:
    if not findings.accept or findings.accepted or not any(map(is_worse, findings.verdicts)):
        return []
    told = "Is it meant? Whoever may write to this repository accepts it, with the reason, in a comment:"
    return [Block(f"{told}\n\n{code_block([f'{findings.accept} REASON'])}", summary="Accept")]
