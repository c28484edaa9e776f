"""Test statistics of one boundary, from the points on both of its sides."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import MAD_TO_SIGMA, Floats
from perfci.stats.rank_tests import critical_separation, rank_separation

MIN_SIGMAS, MIN_SIGMAS_SHORT_SIDE, SHORT_SIDE_POINTS = 4.0, 6.0, 5
"""Standard errors a step must stand out by; 6 where a side has fewer than five points, because a
noise estimate from so few is itself noisy. A first level of fewer than five points is never left
(docs/design/statistics.md)."""

MIN_RANK_SEPARATION = 0.85
"""Share of (before, after) pairs that must be ordered as the step is (docs/design/statistics.md)."""

RANK_TEST_LEVEL = 1e-3
"""One-sided level of the exact rank test: about one false page in a thousand points. For sides of
fewer than a dozen points it asks for more than ``MIN_RANK_SEPARATION``."""

LONG_SIDE_POINTS, CORE_SHARE = 15, 0.75
"""A side of 15 points or more may hold up to a quarter of spikes: the three quarters of it nearest
to its median, the core, are then tested as well."""

MEDIAN_ERROR_RATIO = 1.2533
"""Standard error of a median over that of a mean for normal data: sqrt(pi / 2)."""

SERIES_NOISE_DF = 8.0
"""Degrees of freedom given to the noise of the whole series when it moderates that of one side
(Smyth 2004). Three points that happen to lie close together do not prove a quiet level."""


@dataclass(frozen=True, slots=True)
class BoundaryStatistics:
    """Test statistics of one boundary; a ``strength`` of 1 is enough."""

    size: float
    """Log ratio of the levels next to the boundary, after / before."""
    strength: float
    """Size or rank separation as a multiple of what is required, whichever is smaller."""
    z_score: float
    """Size in standard errors of a difference of two medians, for independent points."""
    required_z_score: float
    """``MIN_SIGMAS``, or ``MIN_SIGMAS_SHORT_SIDE`` where a side is short."""
    before: float
    """Median log level of all points before the boundary."""
    after: float
    """Median log level of all points after it."""


def compute_boundary_statistics(
    before: Floats, after: Floats, reach: int, sigma: float, min_size: float
) -> BoundaryStatistics:
    """Compute the test statistics of the boundary between two stretches of log values.

    With m1, m2 the medians of up to ``reach`` points next to the boundary, and n the points of a
    side, the size is m2 - m1 and the z score

        z = |m2 - m1| / (1.2533 sqrt(v1 / n1 + v2 / n2))
        v = max(s^2, ((n - 1) s^2 + 8 sigma^2) / (n - 1 + 8)),    s = 1.4826 MAD

    ``before`` and ``after`` have shapes (n1,) and (n2,); ``sigma`` is the noise of the whole series
    and ``min_size`` the bar, both in log units (0 means any size counts).
    """
    left, right = _SortedSide.from_points(before), _SortedSide.from_points(after)
    nearest = median_of_sorted(sort_points(before[-reach:])) if len(before) > reach else left.median
    size = (median_of_sorted(sort_points(after[:reach])) if len(after) > reach else right.median) - nearest
    return BoundaryStatistics(
        size=size,
        strength=_relative_strength(left, right, abs(size) / min_size if min_size else math.inf),
        z_score=abs(size)
        / (MEDIAN_ERROR_RATIO * math.sqrt(left.variance_of_median(sigma) + right.variance_of_median(sigma))),
        required_z_score=MIN_SIGMAS_SHORT_SIDE
        if len(before) < SHORT_SIDE_POINTS or len(after) < SHORT_SIDE_POINTS
        else MIN_SIGMAS,
        before=left.median,
        after=right.median,
    )


@dataclass(frozen=True, slots=True)
class _SortedSide:
    """The points of one side sorted, their median, and the sorted distances from it."""

    ordered: Floats
    median: float
    distances: Floats

    @classmethod
    def from_points(cls, points: Floats) -> _SortedSide:
        """Sort the points of one side."""
        ordered = sort_points(points)
        level = median_of_sorted(ordered)
        distances = np.abs(ordered - level)
        distances.sort()
        return cls(ordered, level, distances)

    def __len__(self) -> int:
        return len(self.ordered)

    def variance_of_median(self, sigma: float) -> float:
        """Variance of the side's mean, moderated by the noise of the series (Smyth 2004)."""
        own, degrees = (MAD_TO_SIGMA * median_of_sorted(self.distances)) ** 2, len(self) - 1
        return max(own, (degrees * own + SERIES_NOISE_DF * sigma**2) / (degrees + SERIES_NOISE_DF)) / len(
            self
        )

    def core_points(self) -> Floats:
        """The three quarters of the points nearest to the median."""
        farthest = self.distances[int(CORE_SHARE * (len(self) - 1))]
        return np.asarray(self.ordered[np.abs(self.ordered - self.median) <= farthest])


def _relative_strength(before: _SortedSide, after: _SortedSide, size: float) -> float:
    """Size or rank separation over what is required, whichever is smaller.

    Long sides may pass with their cores instead, so that a share of spikes does not hide a step.
    """
    needed = _required_separation(len(before), len(after))
    apart = rank_separation(before.ordered, after.ordered) / needed
    if apart >= min(size, 1.0) or min(len(before), len(after)) < LONG_SIDE_POINTS:
        return min(size, apart)
    return min(size, max(apart, rank_separation(before.core_points(), after.core_points()) / needed))


def _required_separation(before: int, after: int) -> float:
    """Rank separation that sides of these lengths must reach."""
    if min(before, after) >= LONG_SIDE_POINTS:
        return MIN_RANK_SEPARATION
    return max(MIN_RANK_SEPARATION, critical_separation(before, after, RANK_TEST_LEVEL))


def sort_points(points: Floats) -> Floats:
    """Return the points sorted; for so few, ``ndarray.sort`` takes half the time of ``np.sort``."""
    ordered = points.copy()
    ordered.sort()
    return ordered


def median_of_sorted(ordered: Floats) -> float:
    """Median of sorted points, at a tenth of what ``np.median`` costs on so few."""
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)
