"""Verdicts that need no statistics: missing, failed, exact values, no ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from perfci.model import Clock, Interval, Process, ProcessBoundaries, Verdict, VerdictKind
from perfci.number_format import format_percent
from perfci.verdicts.compare.decision_limits import ComparisonCase
from perfci.verdicts.compare.paired_log_costs import match_pairs
from perfci.verdicts.compare.process_failures import adjust_verdict_for_failures, explain_failed_head
from perfci.verdicts.compare.reason_text import (
    format_both_levels,
    format_disqualified_processes,
    format_measured_level,
    format_missing_reason,
    format_percent_change,
)
from perfci.verdicts.comparison_rule import ROUNDING_TOLERANCE
from perfci.verdicts.process_levels import steady_level, steady_levels
from perfci.verdicts.usable_processes import select_disqualified_processes, select_usable_processes


def nonstatistical_verdict(
    case: ComparisonCase,
    base: Sequence[Process],
    head: Sequence[Process],
    boundaries: ProcessBoundaries = ProcessBoundaries.PROCESS,
) -> Verdict | None:
    """The verdict that needs no statistics; None where statistics decide."""
    if boundaries is not ProcessBoundaries.PROCESS:
        return case.make_verdict(
            VerdictKind.NOT_COMPARABLE,
            "The samples carry no process boundaries, so they cannot be compared.",
        )
    if failure := explain_failed_head(base, head):
        return _verdict_on_levels(case, VerdictKind.FAILED, failure, base, head)
    if missing := _explain_missing_side(base, head):
        text = f"There is nothing to compare: {missing}."
        return _verdict_on_levels(case, VerdictKind.MISSING, text, base, head)
    if not match_pairs(base, head)[0]:
        flags = format_disqualified_processes(base, head)
        return case.make_verdict(VerdictKind.INCONCLUSIVE, f"There is nothing to judge: {flags}.")
    verdict = _exact_verdict(case, base, head) or _nonpositive_verdict(case, base, head)
    return verdict and note_left_out_processes(verdict, base, head)


def note_left_out_processes(verdict: Verdict, base: Sequence[Process], head: Sequence[Process]) -> Verdict:
    """Say which processes failed or were disqualified; failures of the head alone leave it open."""
    verdict = adjust_verdict_for_failures(verdict, base, head)
    note = format_disqualified_processes(base, head)
    return replace(verdict, reason=f"{verdict.reason} Not judged: {note}.") if note else verdict


def _verdict_on_levels(
    case: ComparisonCase, kind: VerdictKind, reason: str, base: Sequence[Process], head: Sequence[Process]
) -> Verdict:
    """A verdict that compares nothing, with the level of each side that has one."""
    return case.make_verdict(kind, reason, base_level=steady_level(base), head_level=steady_level(head))


def _explain_missing_side(base: Sequence[Process], head: Sequence[Process]) -> str:
    """Why there are not two sides; empty where there are, if only of disqualified processes."""
    for name, side in (("base", base), ("head", head)):
        if not select_usable_processes(side) and not select_disqualified_processes(side):
            return f"the {name} {format_missing_reason(side)}"
    if match_pairs(base, head)[0] or format_disqualified_processes(base, head):
        return ""
    return "no pair has both its processes"


def have_same_exact_value(base: Sequence[Process], head: Sequence[Process]) -> bool:
    """Whether all processes of both sides ended well with one and the same exact value."""
    both = [*base, *head]
    usable = select_usable_processes(both)
    values = {sample for process in usable for sample in process.samples}
    return (
        len(usable) == len(both)
        and len(values) == 1
        and all(process.clock is Clock.EXACT for process in usable)
    )


def _exact_verdict(case: ComparisonCase, base: Sequence[Process], head: Sequence[Process]) -> Verdict | None:
    """Verdict on exact values, certain at the first look; None where values vary or are not exact."""
    base, head = select_usable_processes(base), select_usable_processes(head)
    values = [{sample for process in side for sample in process.samples} for side in (base, head)]
    is_exact = all(process.clock is Clock.EXACT for process in (*base, *head))
    if not is_exact or any(len(side) > 1 for side in values):
        return None
    (before,), (after,) = values
    kind, reason, ratio = _judge_exact_values(case, before, after)
    return _certain_verdict(case, kind, reason, (before, after), min(len(base), len(head)), ratio)


def _judge_exact_values(
    case: ComparisonCase, before: float, after: float
) -> tuple[VerdictKind, str, float | None]:
    """Kind and reason of a verdict on exact values, and their ratio where there is one."""
    if before == after:
        return VerdictKind.UNCHANGED, f"Exactly {format_measured_level(before)} on both sides.", 1.0
    is_worse = (after > before) == (case.series.metric.direction == "lower")
    move = VerdictKind.REGRESSION if is_worse else VerdictKind.IMPROVEMENT
    text = f"Counted exactly: {format_both_levels(before, after)}"
    if before <= 0 or after < 0:
        text += ", which no ratio expresses."
        if abs(after - before) > case.rule.floor:
            return move, text, None
        floor = format_measured_level(case.rule.floor)
        return VerdictKind.UNCHANGED, f"{text} That is within its floor of {floor}.", None
    ratio, bar, subject = after / before, case.rule.effective_exact_bar, case.rule.subject_phrase
    text += f" ({format_percent_change(ratio)})"
    if abs(ratio - 1) < bar * (1 - ROUNDING_TOLERANCE):
        return VerdictKind.UNCHANGED, f"{text}, below the threshold of {format_percent(bar)}{subject}.", ratio
    if subject and bar:
        text += f", beyond the threshold of {format_percent(bar)}{subject}"
    elif subject:
        text += f", and{subject} no change is too small"
    return move, f"{text}.", ratio


def _certain_verdict(
    case: ComparisonCase,
    kind: VerdictKind,
    reason: str,
    levels: tuple[float, float],
    pairs: int,
    ratio: float | None,
) -> Verdict:
    """A verdict in which chance has no part."""
    return case.make_verdict(
        kind,
        reason,
        ratio=ratio,
        interval=None if ratio is None else Interval(ratio, ratio),
        base_level=levels[0],
        head_level=levels[1],
        noise_floor=0.0,
        mde=case.rule.effective_exact_bar,
        p_value=1.0 if kind is VerdictKind.UNCHANGED else 0.0,
        pairs=pairs,
        pairs_to_decide=0,
    )


def _nonpositive_verdict(
    case: ComparisonCase, base: Sequence[Process], head: Sequence[Process]
) -> Verdict | None:
    """Verdict on levels of zero or less, which have no logarithm."""
    paired_base, paired_head, _ = match_pairs(base, head)
    before, after = steady_levels(paired_base, paired_head)
    if min(*before, *after) > 0:
        return None
    pairs = min(len(before), len(after))
    if set(before) == set(after) == {0.0}:
        return _certain_verdict(case, VerdictKind.UNCHANGED, "Zero on both sides.", (0.0, 0.0), pairs, 1.0)
    return case.make_verdict(
        VerdictKind.NOT_COMPARABLE,
        "Some levels are zero or less, so no ratio between head and base exists.",
        base_level=median(before),
        head_level=median(after),
        pairs=pairs,
    )
