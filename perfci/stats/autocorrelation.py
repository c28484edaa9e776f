"""Autocorrelation: how much less neighbouring points say than independent ones."""

from __future__ import annotations

import numpy as np

from perfci.stats.location_estimates import Floats

MAX_TREND_AUTOCORRELATION = 0.99
"""Cap of the estimate: at 1 the level is a random walk, whose past says nothing of its mean."""

MIN_BIAS_DIVISOR = 0.5
"""Least value of 1 - b / n: with fewer points the correction of r would be all there is."""


def ar1_variance_inflation(r: float) -> float:
    """(1 + r) / (1 - r) for a first-order autoregressive process with lag-1 autocorrelation r."""
    return (1 + r) / (1 - r)


def correct_autocorrelation_bias(r: float, count: int, at_zero: int, per_unit: int) -> float:
    """Lag-1 autocorrelation without the bias of having fitted what its ``count`` residuals are from.

    The estimate r has the mean rho - (a + b rho) / n to order 1 / n, which is solved for rho:
    (r + a / n) / (1 - b / n). With the mean product of neighbours over the mean square, a = ``at_zero`` and
    b = ``per_unit`` are 1 and 3 for each mean that was fitted, 2 and 4 for a straight line; with sums, b is
    one more for each mean (Kendall 1954; Marriott & Pope 1954).
    """
    return (r + at_zero / count) / max(1 - per_unit / count, MIN_BIAS_DIVISOR)


def estimate_trend_autocorrelation(values: Floats) -> float:
    """Lag-1 autocorrelation of what a straight line leaves of a series of shape (n,), 0 or more; 0 for a
    series that is constant or shorter than five points."""
    count = len(values)
    if count < 5:
        return 0.0
    times = np.arange(count) - (count - 1) / 2
    residuals = values - values.mean() - times * float(times @ values) / float(times @ times)
    squares = float(residuals @ residuals)
    if squares <= 0:
        return 0.0
    r = correct_autocorrelation_bias(float(residuals[1:] @ residuals[:-1]) / squares, count, 2, 4)
    return min(max(r, 0.0), MAX_TREND_AUTOCORRELATION)


def mean_variance_ratio(count: int, r: float) -> float:
    """Variance of the mean of so many neighbours over that of one point, exact for an AR(1) process with
    lag-1 autocorrelation r < 1: (n (1 - r^2) - 2 r (1 - r^n)) / (n (1 - r))^2 (Bayley & Hammersley 1946)."""
    return (count * (1 - r * r) - 2 * r * (1 - r**count)) / (count * (1 - r)) ** 2
