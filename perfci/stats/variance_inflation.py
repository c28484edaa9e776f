"""Autocorrelation: how much less neighbouring points say than independent ones."""

from __future__ import annotations

import numpy as np

from perfci.stats.location_estimates import Floats

MAX_TREND_AUTOCORRELATION = 0.99
"""Cap of the estimate: at 1 the level is a random walk, whose past says nothing of its mean."""


def ar1_variance_inflation(r: float) -> float:
    """(1 + r) / (1 - r) for a first-order autoregressive process with lag-1 autocorrelation r."""
    return (1 + r) / (1 - r)


def estimate_trend_autocorrelation(values: Floats) -> float:
    """Lag-1 autocorrelation r of what a straight line leaves of a series of shape (n,), 0 or more.

    The estimate is biased by about -(2 + 4 r) / n (Kendall 1954; Marriott & Pope 1954, for a fitted
    trend), which is added back. 0 for a series that is constant or shorter than five points.
    """
    count = len(values)
    if count < 5:
        return 0.0
    times = np.arange(count) - (count - 1) / 2
    residuals = values - values.mean() - times * float(times @ values) / float(times @ times)
    squares = float(residuals @ residuals)
    if squares <= 0:
        return 0.0
    r = float(residuals[1:] @ residuals[:-1]) / squares
    return min(max(r + (2 + 4 * r) / count, 0.0), MAX_TREND_AUTOCORRELATION)


def mean_variance_ratio(count: int, r: float) -> float:
    """Variance of the mean of so many neighbours over that of one point, exact for an AR(1) process with
    lag-1 autocorrelation r < 1: (n (1 - r^2) - 2 r (1 - r^n)) / (n (1 - r))^2 (Bayley & Hammersley 1946)."""
    return (count * (1 - r * r) - 2 * r * (1 - r**count)) / (count * (1 - r)) ** 2
