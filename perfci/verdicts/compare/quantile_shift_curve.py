"""Quantile shift curve: by how much every decile of the samples moved, from the fastest to the slowest.

A curve that is flat says that all samples moved alike; one that rises to the right, that the slow ones did:
a pause or a cache that is missed now and then. The shift function of Doksum ("Empirical probability plots
and statistical inference for nonlinear models", Annals of Statistics 2, 1974), with the process as the unit:
a quantile of each process is one number, as its level is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import Clock, Interval, Process, Series
from perfci.verdicts.compare.paired_log_costs import match_pairs
from perfci.verdicts.compare.tail_shift import quantile_log_costs

QUANTILES = tuple(tenth / 10 for tenth in range(1, 10))


@dataclass(frozen=True, slots=True)
class QuantileShift:
    """Head over base of one quantile; the intervals of all quantiles hold the truth together."""

    quantile: float
    ratio: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class QuantileShiftCurve:
    """The shifts of one series from the lowest quantile to the highest."""

    series: Series
    shifts: tuple[QuantileShift, ...]


def estimate_quantile_shifts(
    series: Series, base: Sequence[Process], head: Sequence[Process], error: float = 0.05
) -> QuantileShiftCurve | None:
    """Estimate the curve from the processes of both sides, in the pairs they were measured in.

    ``error`` is the probability that any of the intervals misses, shared out among them by Bonferroni. None
    where a side has fewer than two processes, a process fewer than ten samples after its warm-up, or
    samples are counts or not positive.
    """
    base, head, is_paired = match_pairs(base, head)
    if any(process.clock is Clock.EXACT for process in (*base, *head)):
        return None
    samples = [[process.samples for process in side] for side in (base, head)]
    shifts = []
    for quantile in QUANTILES:
        costs = quantile_log_costs(samples[0], samples[1], quantile, 1.0, is_paired=is_paired)
        if costs is None:
            return None
        shift = costs.estimate_shift()
        low, high = shift.bounds(error / 2 / len(QUANTILES))
        interval = Interval(math.exp(low), math.exp(high))
        shifts.append(QuantileShift(quantile, math.exp(shift.centre), interval))
    return QuantileShiftCurve(series, tuple(shifts))
