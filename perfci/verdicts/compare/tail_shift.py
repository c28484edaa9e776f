"""Verdict on the tail: whether the slowest samples of a process moved, which its median would not show.

A cache that is missed now and then, a pause of the collector or a recompilation moves p90 and leaves
the median where it is. The tail of a process is one number as its level is, so pairs of them are
compared by the same intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfci.model import Clock, Interval, Process, Series, TailVerdict, Verdict, VerdictKind
from perfci.stats.location_estimates import Floats
from perfci.stats.warmup_length import warmup_length
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.compare.paired_log_costs import PairedLogCosts, match_pairs
from perfci.verdicts.compare.reason_text import format_percent_change
from perfci.verdicts.comparison_rule import MOVE_KINDS

TAIL_QUANTILE = 0.9
"""The tail is the quantile that one sample in ten exceeds."""

MIN_TAIL_SAMPLES = 10
"""Samples a process must have, so that one lies beyond the quantile."""

MIN_TAIL_BAR = 0.10
"""Least bar of a tail: half as many samples speak for p90 as for a median (as for tails in ``policy``)."""


def judge_tail(
    series: Series, base: Sequence[Process], head: Sequence[Process], limits: DecisionLimits, error: float
) -> TailVerdict | None:
    """Judge the tail of the samples of two sides; None where processes have too few samples.

    ``error`` is what the interval of the median leaves out on either side.
    """
    base, head, is_paired = match_pairs(base, head)
    if any(process.clock is Clock.EXACT for process in (*base, *head)):
        return None
    samples = [[process.samples for process in side] for side in (base, head)]
    sign = series.metric.cost_sign
    costs = quantile_log_costs(samples[0], samples[1], tail_quantile(sign), sign, is_paired=is_paired)
    return classify_tail(costs, limits, error) if costs else None


def compute_process_tail(samples: Sequence[float], sign: float) -> float | None:
    """The tail quantile of one process after its warm-up; None where it has too few samples."""
    cut = warmup_length([samples])
    if len(samples) - cut < MIN_TAIL_SAMPLES:
        return None
    return float(np.quantile(samples[cut:], tail_quantile(sign)))


def tail_quantile(sign: float) -> float:
    """p90 where less is better (``sign`` +1), else p10."""
    return TAIL_QUANTILE if sign > 0 else 1 - TAIL_QUANTILE


def quantile_log_costs(
    base: Sequence[Sequence[float]],
    head: Sequence[Sequence[float]],
    quantile: float,
    sign: float,
    *,
    is_paired: bool,
) -> PairedLogCosts | None:
    """Log costs of a quantile of every process; None where a side has fewer than two processes, or samples
    are too few or not positive.

    ``base`` and ``head`` are the samples of the processes of both sides, ``sign`` is +1 where less is better.
    """
    processes = [*base, *head]
    if min(len(base), len(head)) < 2:
        return None
    cut = warmup_length(processes)
    if min(map(len, processes)) - cut < MIN_TAIL_SAMPLES or min(map(min, processes)) <= 0:
        return None
    costs = [sign * np.log(_quantiles(side, cut, quantile)) for side in (base, head)]
    return PairedLogCosts(costs[0], costs[1], sign, is_paired)


def _quantiles(side: Sequence[Sequence[float]], warmup: int, quantile: float) -> Floats:
    """A quantile of every process, at once where all have the same number of samples."""
    if len({len(samples) for samples in side}) == 1:
        return np.asarray(np.quantile(np.asarray(side, dtype=float)[:, warmup:], quantile, axis=1))
    return np.array([np.quantile(samples[warmup:], quantile) for samples in side])


def classify_tail(costs: PairedLogCosts, limits: DecisionLimits, error: float) -> TailVerdict:
    """Verdict on the tail alone: at half the error, since it is a second question on the same pairs."""
    shift = costs.estimate_shift()
    bar = max(limits.bar, math.log1p(MIN_TAIL_BAR))
    wider = DecisionLimits(bar, math.log1p(math.expm1(bar) / 2), bar)
    low, high = sorted(costs.sign * bound for bound in wider.select_bounds(shift, error / 2))
    return TailVerdict(
        wider.classify(shift, error / 2),
        math.exp(costs.sign * shift.centre),
        Interval(math.exp(low), math.exp(high)) if shift.df > 0 else None,
    )


def describe_tail(verdict: Verdict) -> str:
    """``The tail got worse although the median did not: p90 +22.0 %, interval +14.1 % to +30.3 %.``

    Says which of median and tail moved, where one did; empty where none did or the tail is open.
    """
    tail = verdict.tail
    if tail is None or tail.interval is None:
        return ""
    if tail.kind in MOVE_KINDS:
        text = f"The tail got {'worse' if tail.kind is VerdictKind.REGRESSION else 'better'}"
        if tail.kind is verdict.kind:
            text = "The tail moved with the median"
        elif verdict.kind is VerdictKind.INCONCLUSIVE:
            text += ", and whether the median did is open"
        else:
            text += " although the median did not"
    elif tail.kind is VerdictKind.UNCHANGED and verdict.kind in MOVE_KINDS:
        text = "The tail did not move with the median"
    else:
        return ""
    low, high = map(format_percent_change, (tail.interval.lo, tail.interval.hi))
    size = f"{verdict.series.metric.tail_name} {format_percent_change(tail.ratio)}"
    return f"{text}: {size}, interval {low} to {high}."
