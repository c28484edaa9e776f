"""By how much the mean of many series moved between two groups of runs, with the spread from run to run."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

MIN_RUNS = 2
"""Fewest runs on either side with a spread."""

TAIL = 0.025


@dataclass(frozen=True, slots=True)
class RunMeans:
    """The mean log level of the same series in each run, before and after; ``series`` is how many they are.

    Those of one ``machine`` share its state on a day.
    """

    machine: Hashable
    series: int
    before: Sequence[float]
    after: Sequence[float]


@dataclass(frozen=True, slots=True)
class MeanShift:
    """A difference of logs with its 95 % interval; without one where the runs are too few."""

    log_ratio: float
    lo: float | None = None
    hi: float | None = None


def estimate_mean_shift(groups: Sequence[RunMeans]) -> MeanShift | None:
    """Estimate the shift of the mean over all series of some groups; None without a group.

    The run is the unit of replication: what a machine does to all series on a day is in the spread of the
    means, which an interval from single series would miss. Each group has the error of unequal variances
    (Welch 1947); weights are the numbers of series. Errors of one machine are taken as fully dependent and
    add, those of several are independent; the degrees of freedom are the fewest of any group.
    """
    total = sum(group.series for group in groups)
    if not total:
        return None
    shift = math.fsum(
        group.series / total * float(np.mean(group.after) - np.mean(group.before)) for group in groups
    )
    errors: dict[Hashable, float] = defaultdict(float)
    freedoms = []
    for group in groups:
        if min(len(group.before), len(group.after)) < MIN_RUNS:
            return MeanShift(shift)
        error, freedom = _welch_error(group.before, group.after)
        errors[group.machine] += group.series / total * error
        freedoms.append(freedom)
    half = float(-stdtrit(min(freedoms), TAIL)) * math.hypot(*errors.values())
    return MeanShift(shift, shift - half, shift + half)


def _welch_error(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The standard error of a difference of means, and its degrees of freedom (Welch 1947)."""
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (before, after)]
    variance = sum(parts)
    spread = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True))
    freedom = variance**2 / spread if spread > 0 else float(len(before) + len(after) - 2)
    return math.sqrt(variance), max(1.0, freedom)
