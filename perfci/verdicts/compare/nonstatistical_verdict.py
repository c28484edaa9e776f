"""Verdicts that need no statistics: missing, failed, exact values, no ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from perfci.model import Clock, Interval, Process, ProcessBoundaries, Verdict, VerdictKind
from perfci.verdicts.compare.decision_limits import ComparisonCase
from perfci.verdicts.compare.paired_log_costs import match_pairs
from perfci.verdicts.compare.process_failures import adjust_verdict_for_failures, explain_failed_head
from perfci.verdicts.compare.reason_text import (
    append_disqualified_note,
    format_both_levels,
    format_disqualified_processes,
    format_measured_level,
    format_missing_reason,
    format_percent_change,
)
from perfci.verdicts.comparison_rule import ROUNDING_TOLERANCE
from perfci.verdicts.process_levels import (
    select_disqualified_processes,
    select_usable_processes,
    steady_level,
    steady_levels,
)


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
        levels = {"base_level": steady_level(base), "head_level": steady_level(head)}
        return case.make_verdict(VerdictKind.FAILED, failure, **levels)
    if missing := _missing_side_verdict(case, base, head):
        return missing
    verdict = _exact_verdict(case, base, head) or _nonpositive_verdict(case, base, head)
    return verdict and note_left_out_processes(verdict, base, head)


def note_left_out_processes(verdict: Verdict, base: Sequence[Process], head: Sequence[Process]) -> Verdict:
    """Say which processes failed or were disqualified; failures of the head alone leave it open."""
    return append_disqualified_note(adjust_verdict_for_failures(verdict, base, head), base, head)


def _missing_side_verdict(
    case: ComparisonCase, base: Sequence[Process], head: Sequence[Process]
) -> Verdict | None:
    """Verdict for a side without usable processes."""
    for name, side in (("base", base), ("head", head)):
        if not select_usable_processes(side) and not select_disqualified_processes(side):
            return _missing_verdict(case, base, head, f"the {name} {format_missing_reason(side)}")
    if match_pairs(base, head)[0]:
        return None
    if flags := format_disqualified_processes(base, head):
        return case.make_verdict(VerdictKind.INCONCLUSIVE, f"There is nothing to judge: {flags}.")
    return _missing_verdict(case, base, head, "no pair has both its processes")


def _missing_verdict(
    case: ComparisonCase, base: Sequence[Process], head: Sequence[Process], missing_reason: str
) -> Verdict:
    """Verdict *missing*, with the level of the side that has one."""
    levels = {"base_level": steady_level(base), "head_level": steady_level(head)}
    return case.make_verdict(VerdictKind.MISSING, f"There is nothing to compare: {missing_reason}.", **levels)


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
    if any(process.clock is not Clock.EXACT for process in (*base, *head)) or any(
        len(side) > 1 for side in values
    ):
        return None
    (before,), (after,) = values
    fields = {
        "base_level": before,
        "head_level": after,
        "noise_floor": 0.0,
        "mde": case.rule.effective_exact_bar,
        "pairs": min(len(base), len(head)),
        "pairs_to_decide": 0,
    }
    if before == after:
        return case.make_verdict(
            VerdictKind.UNCHANGED,
            f"Exactly {format_measured_level(before)} on both sides.",
            ratio=1.0,
            interval=Interval(1.0, 1.0),
            p_value=1.0,
            **fields,
        )
    if before <= 0 or after < 0:
        return _from_zero_verdict(case, before, after, fields)
    return _exact_move_verdict(case, before, after, fields)


def _exact_move_verdict(
    case: ComparisonCase, before: float, after: float, fields: Mapping[str, object]
) -> Verdict:
    ratio = after / before
    fields = dict(fields, ratio=ratio, interval=Interval(ratio, ratio), p_value=0.0)
    text = f"Counted exactly: {format_both_levels(before, after)} ({format_percent_change(ratio)})"
    bar, subject = case.rule.effective_exact_bar, case.rule.subject_phrase
    if abs(ratio - 1) < bar * (1 - ROUNDING_TOLERANCE):
        return case.make_verdict(
            VerdictKind.UNCHANGED, f"{text}, below the bar of {100 * bar:.3g}%{subject}.", **fields
        )
    explanation = (
        f", beyond the bar of {100 * bar:.3g}%{subject}" if bar else f", and{subject} no change is too small"
    )
    return case.make_verdict(
        _move_kind(case, after - before), f"{text}{explanation if case.rule.subject else ''}.", **fields
    )


def _from_zero_verdict(
    case: ComparisonCase, before: float, after: float, fields: Mapping[str, object]
) -> Verdict:
    text = f"Counted exactly: {format_both_levels(before, after)}, which no ratio expresses."
    if abs(after - before) <= case.rule.floor:
        text = f"{text} That is within its floor of {format_measured_level(case.rule.floor)}."
        return case.make_verdict(VerdictKind.UNCHANGED, text, p_value=1.0, **fields)
    return case.make_verdict(_move_kind(case, after - before), text, p_value=0.0, **fields)


def _move_kind(case: ComparisonCase, difference: float) -> VerdictKind:
    worse = (difference > 0) == (case.series.metric.direction == "lower")
    return VerdictKind.REGRESSION if worse else VerdictKind.IMPROVEMENT


def _nonpositive_verdict(
    case: ComparisonCase, base: Sequence[Process], head: Sequence[Process]
) -> Verdict | None:
    """Verdict on levels of zero or less, which have no logarithm."""
    paired_base, paired_head, _ = match_pairs(base, head)
    before, after = steady_levels(paired_base, paired_head)
    if min(*before, *after) > 0:
        return None
    levels = {
        "base_level": median(before),
        "head_level": median(after),
        "pairs": min(len(before), len(after)),
    }
    if set(before) == set(after) == {0.0}:
        certain = {
            "noise_floor": 0.0,
            "mde": case.rule.effective_exact_bar,
            "pairs_to_decide": 0,
            "p_value": 1.0,
        }
        no_change = {"ratio": 1.0, "interval": Interval(1.0, 1.0)}
        return case.make_verdict(
            VerdictKind.UNCHANGED, "Zero on both sides.", **levels, **certain, **no_change
        )
    return case.make_verdict(
        VerdictKind.NOT_COMPARABLE,
        "Some levels are zero or less, so no ratio between head and base exists.",
        **levels,
    )
