"""The verdicts that need no statistics: what is missing, failed, counted exactly or has no ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfci.model import Boundaries, Clock, Interval, Process, Status, Verdict, VerdictKind
from perfci.stats.location import median
from perfci.verdicts.compare.comparison_case import Case
from perfci.verdicts.compare.reason_text import how_it_failed, left_out, why_nothing, with_left_out
from perfci.verdicts.compare.side_costs import paired_up
from perfci.verdicts.number_format import became, number, percent
from perfci.verdicts.process_levels import flagged, settled_level, settled_levels, usable
from perfci.verdicts.rule import ROUNDING


def without_statistics(
    case: Case, base: Sequence[Process], head: Sequence[Process], boundaries: Boundaries = Boundaries.PROCESS
) -> Verdict | None:
    """The verdict that needs no statistics, or None where the numbers have to speak."""
    if boundaries is not Boundaries.PROCESS:
        return case.answer(
            VerdictKind.NOT_COMPARABLE,
            "The samples no longer know which process they came from, so they cannot be compared.",
        )
    if absent := _absent(case, base, head):
        return absent
    found = _exact(case, base, head) or _below_zero(case, base, head)
    return found and with_left_out(found, base, head)


def _absent(case: Case, base: Sequence[Process], head: Sequence[Process]) -> Verdict | None:
    if _mostly_failed(head) and (usable(base) or flagged(base)) and not _mostly_failed(base):
        return case.answer(
            VerdictKind.FAILED, f"The base works and the head {how_it_failed(head)}.", base_level=settled_level(base)
        )
    for name, side in (("base", base), ("head", head)):
        if not usable(side) and not flagged(side):
            return _missing(case, base, head, f"the {name} {why_nothing(side)}")
    if paired_up(base, head)[0]:
        return None
    if flags := left_out(base, head):
        return case.answer(VerdictKind.INCONCLUSIVE, f"There is nothing to judge: {flags}.")
    return _missing(case, base, head, "no pair has both its processes")


def _missing(case: Case, base: Sequence[Process], head: Sequence[Process], why: str) -> Verdict:
    """The level of the side that has one tells a benchmark that was dropped from a new one."""
    levels = {"base_level": settled_level(base), "head_level": settled_level(head)}
    return case.answer(VerdictKind.MISSING, f"There is nothing to compare: {why}.", **levels)


def _mostly_failed(side: Sequence[Process]) -> bool:
    failed = sum(process.status not in (Status.OK, Status.SKIPPED) for process in side)
    return failed > 0 and 2 * failed >= len(side)


def counted_alike(base: Sequence[Process], head: Sequence[Process]) -> bool:
    """Whether all processes of both sides ended well and counted one and the same number."""
    both = [*base, *head]
    good = usable(both)
    values = {sample for process in good for sample in process.samples}
    return len(good) == len(both) and len(values) == 1 and all(process.clock is Clock.EXACT for process in good)


def _exact(case: Case, base: Sequence[Process], head: Sequence[Process]) -> Verdict | None:
    """Counts and byte sums repeat exactly, so one look is certain; where they vary they are no such thing."""
    base, head = usable(base), usable(head)
    values = [{sample for process in side for sample in process.samples} for side in (base, head)]
    if any(process.clock is not Clock.EXACT for process in (*base, *head)) or any(len(side) > 1 for side in values):
        return None
    (before,), (after,) = values
    known = {
        "base_level": before,
        "head_level": after,
        "noise_floor": 0.0,
        "mde": case.rule.counted_bar,
        "pairs": min(len(base), len(head)),
        "pairs_to_decide": 0,
    }
    if before == after:
        return case.answer(
            VerdictKind.UNCHANGED,
            f"Exactly {number(before)} on both sides.",
            ratio=1.0,
            interval=Interval(1.0, 1.0),
            p_value=1.0,
            **known,
        )
    if before <= 0 or after < 0:
        return _from_nothing(case, before, after, known)
    return _exact_move(case, before, after, known)


def _exact_move(case: Case, before: float, after: float, known: Mapping[str, object]) -> Verdict:
    ratio = after / before
    known = dict(known, ratio=ratio, interval=Interval(ratio, ratio), p_value=0.0)
    told = f"Counted exactly: {became(before, after)} ({percent(ratio)})"
    bar, named = case.rule.counted_bar, case.rule.named
    if abs(ratio - 1) < bar * (1 - ROUNDING):
        return case.answer(VerdictKind.UNCHANGED, f"{told}, below the bar of {100 * bar:.3g}%{named}.", **known)
    why = f", beyond the bar of {100 * bar:.3g}%{named}" if bar else f", and{named} no change is too small"
    return case.answer(_worse_or_better(case, after - before), f"{told}{why if case.rule.about else ''}.", **known)


def _from_nothing(case: Case, before: float, after: float, known: Mapping[str, object]) -> Verdict:
    told = f"Counted exactly: {became(before, after)}, which no ratio expresses."
    if abs(after - before) <= case.rule.floor:
        told = f"{told} That is within its floor of {number(case.rule.floor)}."
        return case.answer(VerdictKind.UNCHANGED, told, p_value=1.0, **known)
    return case.answer(_worse_or_better(case, after - before), told, p_value=0.0, **known)


def _worse_or_better(case: Case, difference: float) -> VerdictKind:
    worse = (difference > 0) == (case.series.metric.direction == "lower")
    return VerdictKind.REGRESSION if worse else VerdictKind.IMPROVEMENT


def _below_zero(case: Case, base: Sequence[Process], head: Sequence[Process]) -> Verdict | None:
    """A level of zero or less has no logarithm; the few cases with a plain answer get it."""
    paired_base, paired_head, _ = paired_up(base, head)
    before, after = settled_levels(paired_base, paired_head)
    if min(*before, *after) > 0:
        return None
    known = {"base_level": median(before), "head_level": median(after), "pairs": min(len(before), len(after))}
    if set(before) == set(after) == {0.0}:
        settled = {"noise_floor": 0.0, "mde": case.rule.counted_bar, "pairs_to_decide": 0, "p_value": 1.0}
        same = {"ratio": 1.0, "interval": Interval(1.0, 1.0)}
        return case.answer(VerdictKind.UNCHANGED, "Zero on both sides.", **known, **settled, **same)
    return case.answer(
        VerdictKind.NOT_COMPARABLE,
        "Some levels are zero or less, so no ratio between head and base exists.",
        **known,
    )
