"""The test of one boundary between two levels of a series.

A boundary passes if its step stands out from noise that may have a memory (z score by generalised
least squares), and if points of this series seldom lie so far out by themselves (sign test against
its own residuals). Both are measured over what they must be; the strength of a boundary is the
smaller, and 1 passes. How large a step is for the user is no part of the test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import bdtrc, stdtrit

from perfci.stats.autocorrelation import mean_variance_ratio
from perfci.stats.location_estimates import MAD_TO_SIGMA, MEDIAN_ERROR_RATIO, Floats, median, sorted_median

REJECTED_STRENGTH = 0.5
"""Strength of a boundary that a rule excludes: it is removed before those that nearly pass."""

TEST_LEVEL = 1e-4
"""One-sided level of both tests: one boundary in ten thousand passes by chance."""

NEWEST_LEVEL_LOOKS = 4
"""Looks at a new level, with 3, 4, 5 and more points, that its z score shares ``TEST_LEVEL`` over
(Bonferroni): it is tested again with every point, all levels before it are settled."""

CHANGED_MIX_STRENGTH = 0.99
"""Strength of a boundary between two mixes of the same levels: removed after all that is no step."""

MIN_STATE_SIGMAS, STATE_REACH = 3.0, 1 / 4
"""Levels this many sigmas apart are told from each other by single points: one belongs to a level
within a quarter of the way to the other, or beyond it."""

MIN_STATE_SHARE = 0.15
"""Share of either side at the level of the other from which both visit the same states."""

MIN_P_VALUE = 1e-300
"""Smaller ones count as this."""

MAX_SIDE_POINTS = 60
"""Most points either side that are looked at; what lies further back belongs to another time."""

MIN_SIZE_POINTS, MAX_SIZE_POINTS, SIZE_ERRORS_PER_BAR = 15, 200, 15.0
"""Levels creep, so the size is that of as few points a side as the noise allows: with a standard
error of a fifteenth of the bar, a step one fifth above the bar is measured above it with three
standard errors. Fifteen points are enough for a median of what has next to no noise; noise of 3 %
would need 270."""

MAX_SPIKE_POINTS = 3
"""A level of up to three points that the next boundary takes back is a spike, no level
(docs/design/statistics.md)."""

MIN_FIRST_POINTS = 5
"""A first level of fewer points is never left."""

WINSORIZED_SIGMAS = 3.0
"""Points further from the median of their side are moved to this distance (Huber 1964)."""

SHORT_SIDE_POINTS, SHORT_SIDE_SHARE, LONG_SIDE_SHARE = 15, 1 / 5, 1 / 3
"""At most a fifth of a side below 15 points and a third of a longer one is moved so; more are no
outliers but part of its noise."""

SERIES_NOISE_DF = 8.0
"""Degrees of freedom given to the noise of the whole series when it moderates that of one side
(Smyth 2004). Three points that happen to lie close together do not prove a quiet level."""

MAX_AUTOCORRELATION = 0.95
"""Cap of the lag-1 autocorrelation: with more, any level is followed by any other."""

MAX_JUMP_SIGMAS = 4.0
"""Neighbours further apart than this are a step or a spike and say nothing of a memory."""

MIN_AUTOCORRELATION_PAIRS, UNKNOWN_AUTOCORRELATION = 4, 0.5
"""With fewer pairs of neighbours the autocorrelation is taken to be one half."""


def estimate_autocorrelation(clipped: Floats) -> float:
    """Estimate the lag-1 autocorrelation of values of shape (n,) in units of their noise, steps or not.

    With d1 and d2 the differences of neighbours and of next neighbours, mean(d2^2) / mean(d1^2) is 1 + r
    for an AR(1) process, and a step is in few of them (Chakar et al. 2017). Those over a jump are left
    out. One standard error, 1 / sqrt(n), is added: what a memory that was missed costs (a false alarm)
    is more than what one that is not there costs.
    """
    differences = clipped[1:] - clipped[:-1]
    smooth = np.abs(differences) <= MAX_JUMP_SIGMAS * math.sqrt(2)
    first = differences[smooth]
    second = (clipped[2:] - clipped[:-2])[smooth[1:] & smooth[:-1]]
    if len(second) < MIN_AUTOCORRELATION_PAIRS:
        return UNKNOWN_AUTOCORRELATION
    scale = float(first @ first) / len(first)
    r = float(second @ second) / len(second) / max(scale, 1e-12) - 1 + 1 / math.sqrt(len(second))
    return min(max(r, 0.0), MAX_AUTOCORRELATION)


class WinsorizedSide(NamedTuple):
    """One side of a boundary, outliers moved inwards: how many points, their median, the first, the last and
    the sum (all three counted from the median), and their variance."""

    points: int
    level: float
    first: float
    last: float
    total: float
    variance: float


class BoundaryTest:
    """One series under test.

    ``logs`` and ``residuals`` (from a running median) have shape (n,), ``sigma`` is the noise from
    point to point and ``r`` its lag-1 autocorrelation; ``bar`` is the smallest step asked for, as
    after / before - 1.
    """

    def __init__(self, logs: Floats, residuals: Floats, sigma: float, r: float, bar: float) -> None:
        self.logs = logs
        self.residuals = residuals
        self.sigma = sigma
        self.r = r
        self.min_size = math.log1p(bar)
        # var(x[i + 1] - x[i]) = 2 sigma^2 = 2 (1 - r) var(x)
        self.variance = sigma**2 / (1 - r)
        self.size_points = MAX_SIZE_POINTS
        if bar:
            needed = 2 * (SIZE_ERRORS_PER_BAR * MEDIAN_ERROR_RATIO * sigma / self.min_size) ** 2
            self.size_points = int(min(max(needed, MIN_SIZE_POINTS), MAX_SIZE_POINTS))
        self._measured: dict[tuple[int, int, int], tuple[float, float]] = {}
        self._winsorized: dict[tuple[int, int], WinsorizedSide] = {}

    def compute_strength(self, edges: Sequence[int], k: int) -> float:
        """Strength of boundary ``k`` between its neighbours; short first levels and spikes get
        ``REJECTED_STRENGTH``.
        """
        if edges[k - 1] == 0 and edges[k] < MIN_FIRST_POINTS:
            return REJECTED_STRENGTH
        size, strength = self._measure(edges, k)
        if edges[k + 1] - edges[k] <= MAX_SPIKE_POINTS and k + 2 < len(edges):
            following, _ = self._measure(edges, k + 1)
            if size * following < 0:
                return REJECTED_STRENGTH
        return strength

    def get_side_values(self, edges: Sequence[int], k: int) -> tuple[Floats, Floats]:
        """Log values either side of boundary ``k`` that give its size, nearest neighbours only."""
        start, at, end = edges[k - 1 : k + 2]
        reach = self.size_points
        return self.logs[max(start, at - reach) : at], self.logs[at : min(end, at + reach)]

    def _measure(self, edges: Sequence[int], k: int) -> tuple[float, float]:
        """Difference of the levels at boundary ``k``, and the smaller of what its two tests measure over what
        they must; the second is taken of what passes the first."""
        start, at, end = span = edges[k - 1], edges[k], edges[k + 1]
        measured = self._measured.get(span)
        if measured is None:
            start, end = max(start, at - MAX_SIDE_POINTS), min(end, at + MAX_SIDE_POINTS)
            before, after = self._get_winsorized(start, at), self._get_winsorized(at, end)
            looks = NEWEST_LEVEL_LOOKS if span[2] == len(self.logs) else 1
            test_ratio = gls_z_score(before, after, self.r) / critical_z_score(end - start, looks)
            if test_ratio >= 1:
                p_value = self._sign_test(start, at, end, before.level, after.level)
                test_ratio = min(test_ratio, math.log(max(p_value, MIN_P_VALUE)) / math.log(TEST_LEVEL))
                if self._is_changed_mix(start, at, end, before.level, after.level):
                    test_ratio = min(test_ratio, CHANGED_MIX_STRENGTH)
            measured = self._measured[span] = after.level - before.level, test_ratio
        return measured

    def _get_winsorized(self, start: int, end: int) -> WinsorizedSide:
        side = self._winsorized.get((start, end))
        if side is None:
            side = self._winsorized[start, end] = winsorize(self.logs[start:end], self.variance)
        return side

    def _is_changed_mix(self, start: int, at: int, end: int, before: float, after: float) -> bool:
        """Whether either side visits the level of the other: then the machine's states are the same, and only
        how often each is met has changed."""
        size = after - before
        if abs(size) < MIN_STATE_SIGMAS * self.sigma:
            return False
        # how far each point has come on its way from its own level to the other one
        old = (self.logs[start:at] - before) / size
        new = (after - self.logs[at:end]) / size
        return all(
            np.count_nonzero(way > 1 - STATE_REACH) >= MIN_STATE_SHARE * len(way) for way in (old, new)
        )

    def _sign_test(self, start: int, at: int, end: int, before: float, after: float) -> float:
        """P-value of the shorter side's points lying beyond the middle between the two levels.

        Of the n points of the shorter side k do. Without a step a point does with probability q, so p is the
        upper tail of Binomial(n, q) at k. q is the larger of two shares: of the longer side's points beyond
        the middle, and (by Jeffreys' estimate) of residuals elsewhere in the series that lie as far from
        the running median on that side. It is what keeps bursts and rare states of a machine from being
        levels.
        """
        is_after = end - at <= at - start
        short, long = (slice(at, end), slice(start, at))[:: 1 if is_after else -1]
        upwards = (after > before) == is_after
        sign = 1.0 if upwards else -1.0
        middle, half = (after + before) / 2, abs(after - before) / 2
        shorter, longer = sign * (self.logs[short] - middle) > 0, sign * (self.logs[long] - middle) > 0
        is_far = sign * self.residuals > half
        elsewhere = np.count_nonzero(is_far) - np.count_nonzero(is_far[short])
        n, k = len(shorter), np.count_nonzero(shorter)
        q = (elsewhere + 0.5) / (len(is_far) - n + 1)
        if len(longer) >= SHORT_SIDE_POINTS:
            q = max(q, np.count_nonzero(longer) / len(longer))
        return float(bdtrc(k - 1, n, q)) if k else 1.0


def winsorize(points: Floats, series_variance: float) -> WinsorizedSide:
    """Move the outliers of one side, of shape (n,), inwards.

    Its variance is moderated by that of the series (Smyth 2004), and no less: where neighbours are alike, a
    few of them say little of how far the level wanders.
    """
    count, level = len(points), median(points)
    distances = np.abs(points - level)
    distances.sort()
    movable = int(count * (SHORT_SIDE_SHARE if count < SHORT_SIDE_POINTS else LONG_SIDE_SHARE))
    sigma = max(MAD_TO_SIGMA * sorted_median(distances), math.sqrt(series_variance))
    limit = max(WINSORIZED_SIGMAS * sigma, float(distances[count - 1 - movable]))
    values = points - level
    if distances[-1] > limit:
        values = np.minimum(np.maximum(values, -limit), limit)
    total = float(np.add.reduce(values))
    moderated = (float(values @ values) - total * total / count + SERIES_NOISE_DF * series_variance) / (
        count - 1 + SERIES_NOISE_DF
    )
    return WinsorizedSide(
        count, level, float(values[0]), float(values[-1]), total, max(moderated, series_variance)
    )


def gls_z_score(before: WinsorizedSide, after: WinsorizedSide, r: float) -> float:
    """Size of a step in standard errors by generalised least squares with AR(1) errors.

    The values y of both sides are whitened by w[t] = y[t] - r y[t - 1] and w[0] = sqrt(1 - r^2) y[0] (Prais
    & Winsten 1954), and regressed on a constant and a step. With r = 0 that is the difference of the means;
    as r approaches 1 it is the jump at the boundary, so a level that wanders there gradually does not count.
    The variance is the mean of both, weighted as a difference of means weighs them.
    """
    n0, n1, c = before.points, after.points, 1 - r
    weights = mean_variance_ratio(n0, r), mean_variance_ratio(n1, r)
    variance = (before.variance * weights[0] + after.variance * weights[1]) / sum(weights)
    # the sums of squares and products of both regressors, and of each with the whitened values; values are
    # counted from the level before
    constant = (1 - r * r) + (n0 + n1 - 1) * c * c
    step = 1 + (n1 - 1) * c * c
    both = c + (n1 - 1) * c * c
    shift = after.level - before.level
    first, last, after_total = after.first + shift, after.last + shift, after.total + n1 * shift
    total = before.total + after_total
    with_constant = (1 - r * r) * before.first + c * ((total - before.first) - r * (total - last))
    with_step = (first - r * before.last) + c * ((after_total - first) - r * (after_total - last))
    determinant = constant * step - both * both
    size = (constant * with_step - both * with_constant) / determinant
    return abs(size) / math.sqrt(variance * (1 - r * r) * constant / determinant)


@cache
def critical_z_score(points: int, looks: int = 1) -> float:
    """Upper quantile of Student's t at ``TEST_LEVEL`` over so many looks, for so many points and the noise of
    the series."""
    return -float(stdtrit(points - 2 + SERIES_NOISE_DF, TEST_LEVEL / looks))
