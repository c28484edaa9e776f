"""Shift of the tail: whether the slowest samples of a process moved, which its median would not show.

A cache that is missed now and then, a pause of the collector or a recompilation moves p90 and leaves
the median where it is. The tail of a process is one number as its level is, so pairs of them are
compared by the same intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfci.model import Clock, Process, Series, VerdictKind
from perfci.stats.location_shift import Shift, estimate_paired_shift, estimate_unpaired_shift
from perfci.stats.warmup_length import warmup_length
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.compare.paired_log_costs import match_pairs
from perfci.verdicts.comparison_rule import MOVE_KINDS

TAIL_QUANTILE = 0.9
"""The tail is the quantile that one sample in ten exceeds."""

MIN_TAIL_SAMPLES = 10
"""Samples a process must have, so that one lies beyond the quantile."""

MIN_TAIL_BAR = 0.10
"""Least bar of a tail: half as many samples speak for p90 as for a median (as for tails in ``policy``)."""


def estimate_tail_shift(series: Series, base: Sequence[Process], head: Sequence[Process]) -> Shift | None:
    """Shift in cost of p90 of the samples of a process; None where processes have too few samples."""
    base, head, is_paired = match_pairs(base, head)
    processes = [*base, *head]
    cut = warmup_length([process.samples for process in processes])
    if (
        min(len(base), len(head)) < 2
        or any(process.clock is Clock.EXACT for process in processes)
        or min(len(process.samples) for process in processes) - cut < MIN_TAIL_SAMPLES
        or min(min(process.samples) for process in processes) <= 0
    ):
        return None
    sign = series.metric.cost_sign
    quantile = TAIL_QUANTILE if sign > 0 else 1 - TAIL_QUANTILE
    costs = [
        np.array([sign * math.log(np.quantile(process.samples[cut:], quantile)) for process in side])
        for side in (base, head)
    ]
    estimate = estimate_paired_shift if is_paired else estimate_unpaired_shift
    return estimate(*costs)


def classify_tail(shift: Shift, limits: DecisionLimits, tail: float) -> VerdictKind:
    """Verdict on the tail alone; the error is halved, since it is a second question on the same pairs."""
    bar = max(limits.bar, math.log1p(MIN_TAIL_BAR))
    wider = DecisionLimits(bar, math.log1p(math.expm1(bar) / 2), bar)
    return wider.classify(shift, tail / 2)


def describe_tail(
    series: Series, shift: Shift | None, limits: DecisionLimits, kind: VerdictKind, tail: float
) -> str:
    """``The tail got worse although the median did not: p90 +22.0%, interval +14.1% to +30.3%.``

    Empty unless the tail moved and the median is not known to have moved the same way.
    """
    if shift is None:
        return ""
    tail_kind = classify_tail(shift, limits, tail)
    if tail_kind not in MOVE_KINDS or tail_kind is kind:
        return ""
    sign = series.metric.cost_sign
    low, high = sorted(math.exp(sign * bound) for bound in shift.bounds_of_move(tail / 2))
    name = "p90" if sign > 0 else "p10"
    direction = "worse" if tail_kind is VerdictKind.REGRESSION else "better"
    sizes = f"{name} {math.exp(sign * shift.centre) - 1:+.1%}, interval {low - 1:+.1%} to {high - 1:+.1%}"
    return f"The tail got {direction} although the median did not: {sizes}."
