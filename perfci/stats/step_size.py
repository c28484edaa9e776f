"""The size of a step: the levels next to its boundary, and a 95 % interval of their difference.

A level is the median of the points next to the boundary. The interval is that of a difference of two
medians (Price & Bonett 2002) with a common scale, for points that follow a first-order autoregressive
process within each level. With m1, m2 the medians of n1 and n2 points, k = 2 levels, n = n1 + n2, and
residuals from the own median:

    m2 - m1 +- t(0.975; d) 1.2533 s sqrt(g(r; n1) / n1 + g(r; n2) / n2)
    s = 1.4826 median |residual| sqrt(n / (n - k))           (Hampel 1974; k medians were estimated)
    g(r; n) = 1 + 2 sum over j < n of (1 - j / n) r^j        (Bayley & Hammersley 1946)
    d = 0.37 (n - k) (1 - r^2) / (1 + r^2), at least 2       (as before, of a variance; 0.37: see below)
    r = (c n / (n - k) + k / n) / (1 - 3 k / n), in [0, 0.9] (Kendall 1954, solved for r)

where c is the lag-1 autocorrelation of the residuals, clipped at 3 s. Coverage by noise, autocorrelation and
number of points is in docs/design/statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from perfci.stats.autocorrelation import correct_autocorrelation_bias, mean_variance_ratio
from perfci.stats.location_estimates import MAD_TO_SIGMA, MEDIAN_ERROR_RATIO, Floats, median
from perfci.stats.optimal_partitioning import MIN_SIGMA

MAD_EFFICIENCY = 0.37
"""Variance of a standard deviation over that of a median absolute deviation, normal data (Hampel 1974): a
scale from n points is as uncertain as a standard deviation of 0.37 n."""

CLIP_SIGMAS = 3.0
"""Residuals are clipped here, so that a spike is no autocorrelation (Huber 1964)."""

MAX_AUTOCORRELATION = 0.9
"""Cap of the lag-1 autocorrelation: with more, a few dozen points know nothing of their level."""

MIN_DF = 2.0
"""Fewest degrees of freedom: with one, the interval of five points would span several times the level."""

MAX_LOG_RATIO = 700.0
"""A larger ratio is held by no float."""

MIN_P_VALUE = 2.0**-52
"""Smallest p-value used: float rounding makes anything smaller meaningless."""

LEVELS = 2


@dataclass(frozen=True, slots=True)
class LevelStep:
    """A step at ``index``, its levels before and after, and the 95 % interval of ``relative_change``.

    ``size`` is their difference in the unit of the estimate: a log ratio, or a share of the scale.
    ``p_value`` is that of no change, by the error of the interval, and ``noise`` the standard deviation of
    one point as a log ratio. Levels of zero or less have no ratio, hence no interval and none of these.
    """

    index: int
    before: float
    after: float
    size: float
    lower: float | None = None
    upper: float | None = None
    noise: float | None = None
    p_value: float | None = None

    @property
    def relative_change(self) -> float:
        """After / before - 1; from zero 100 % in the direction of the step."""
        if not self.before:
            return math.copysign(1.0, self.after) if self.after else 0.0
        return (self.after - self.before) / abs(self.before)


def estimate_level_step(index: int, before: Floats, after: Floats, scale: float = 0.0) -> LevelStep:
    """The step between two stretches of log values; with ``scale``, of values divided by it instead."""
    old, new = median(before), median(after)
    if scale:
        return LevelStep(index, scale * old, scale * new, new - old)
    size, noise, error, df = new - old, *_estimate_error([before - old, after - new])
    half_width = float(stdtrit(df, 0.975)) * error
    lower, upper = (math.expm1(min(size + side * half_width, MAX_LOG_RATIO)) for side in (-1, 1))
    p_value = max(2 * float(stdtr(df, -abs(size) / error)), MIN_P_VALUE)
    return LevelStep(index, math.exp(old), math.exp(new), size, lower, upper, noise, p_value)


def _estimate_error(residuals: list[Floats]) -> tuple[float, float, float]:
    """Standard deviation of one point, standard error of a difference of two medians, and its degrees of
    freedom, from the residuals of both sides."""
    count = sum(map(len, residuals))
    freedom = max(count - LEVELS, 1)
    mad = median(np.abs(np.concatenate(residuals)))
    sigma = max(MAD_TO_SIGMA * mad * math.sqrt(count / freedom), MIN_SIGMA)
    r = _autocorrelation(residuals, CLIP_SIGMAS * sigma)
    variance = sum(mean_variance_ratio(len(side), r) for side in residuals)
    df = max(MAD_EFFICIENCY * freedom * (1 - r * r) / (1 + r * r), MIN_DF)
    return sigma, MEDIAN_ERROR_RATIO * sigma * math.sqrt(variance), df


def _autocorrelation(residuals: list[Floats], limit: float) -> float:
    """Lag-1 autocorrelation within the levels of residuals clipped at ``limit``, without the bias of having
    estimated the levels; 0 to 0.9."""
    squares = products = 0.0
    for side in residuals:
        clipped = np.minimum(np.maximum(side, -limit), limit)
        squares += float((clipped * clipped).sum())
        products += float((clipped[1:] * clipped[:-1]).sum())
    if not squares:
        return 0.0
    count = sum(map(len, residuals))
    # k levels leave n - k products of neighbours, but n squares
    r = products / squares * count / max(count - LEVELS, 1)
    r = correct_autocorrelation_bias(r, count, LEVELS, 3 * LEVELS)
    return min(max(r, 0.0), MAX_AUTOCORRELATION)
