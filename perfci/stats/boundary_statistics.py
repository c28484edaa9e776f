"""What the points on both sides of a boundary say of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import MAD_TO_SIGMA, Floats
from perfci.stats.rank_tests import critical_separation, rank_separation

MIN_SIGMAS, MIN_SIGMAS_SHORT_SIDE, SHORT_SIDE_POINTS = 4.0, 6.0, 5
"""Sigmas a step must stand out; more where a side has fewer than five points, whose noise is hardly known.
Fewer than five points at the very beginning are no level to depart from, and there is no hurry to tell."""

MIN_RANK_SEPARATION = 0.85
"""Share of (before, after) pairs in the order of the step (study, 6.2)."""

RANK_TEST_LEVEL = 1e-3
"""No boundary is believed that a rank test finds more likely by chance than this: one page in a thousand points is
wanted at most. It asks for more than ``MIN_SEPARATION`` where a side has less than a dozen points."""

LONG_SIDE_POINTS, CORE_SHARE = 15, 0.75
"""From this many points a side its share of spikes is known; the quarter furthest out may then be spikes."""

MEDIAN_ERROR_RATIO = 1.2533
"""Standard error of a median against that of a mean in normal data: sqrt(pi / 2)."""

SERIES_NOISE_DF = 8.0
"""What the noise of the line is worth beside that of one side: eight more points, as in comparisons of pairs. Three
points that happen to lie close together, which neighbours often do, are no proof that a level is quiet."""


@dataclass(frozen=True, slots=True)
class BoundaryStatistics:
    """What the points on both sides of a boundary say of it; of ``strength`` 1 is enough."""

    size: float
    strength: float
    """Size or rank separation, whichever is less of what is needed."""
    z_score: float
    """The size in standard errors of the difference of two medians, if neighbouring points have nothing in common."""
    required_z_score: float
    """How many of those it must be."""
    before: float
    after: float


def compute_boundary_statistics(
    before: Floats, after: Floats, reach: int, sigma: float, min_size: float
) -> BoundaryStatistics:
    """The evidence of the points before and after, of which so many next to the boundary tell the size.

    ``sigma`` is the noise of the whole line, ``least`` the smallest size that counts.
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
    """The points of one side in their order of size, their median, and how far they lie from it, in order as well."""

    ordered: Floats
    median: float
    distances: Floats

    @classmethod
    def from_points(cls, points: Floats) -> _SortedSide:
        ordered = sort_points(points)
        level = median_of_sorted(ordered)
        distances = np.abs(ordered - level)
        distances.sort()
        return cls(ordered, level, distances)

    def __len__(self) -> int:
        return len(self.ordered)

    def variance_of_median(self, sigma: float) -> float:
        """Variance of its mean; what a quiet side shows is moderated by the noise of the whole line (Smyth 2004)."""
        own, degrees = (MAD_TO_SIGMA * median_of_sorted(self.distances)) ** 2, len(self) - 1
        return max(own, (degrees * own + SERIES_NOISE_DF * sigma**2) / (degrees + SERIES_NOISE_DF)) / len(
            self
        )

    def core_points(self) -> Floats:
        """The three quarters nearest to the median."""
        farthest = self.distances[int(CORE_SHARE * (len(self) - 1))]
        return np.asarray(self.ordered[np.abs(self.ordered - self.median) <= farthest])


def _relative_strength(before: _SortedSide, after: _SortedSide, size: float) -> float:
    """Size or rank separation, whichever is less of what is needed.

    Of long sides the separation of their cores counts too, so that a share of spikes does not hide a step.
    """
    needed = _required_separation(len(before), len(after))
    apart = rank_separation(before.ordered, after.ordered) / needed
    if apart >= min(size, 1.0) or min(len(before), len(after)) < LONG_SIDE_POINTS:
        return min(size, apart)
    return min(size, max(apart, rank_separation(before.core_points(), after.core_points()) / needed))


def _required_separation(before: int, after: int) -> float:
    if min(before, after) >= LONG_SIDE_POINTS:
        return MIN_RANK_SEPARATION
    return max(MIN_RANK_SEPARATION, critical_separation(before, after, RANK_TEST_LEVEL))


def sort_points(points: Floats) -> Floats:
    """The points by their size; ``np.sort`` takes twice as long over so few."""
    ordered = points.copy()
    ordered.sort()
    return ordered


def median_of_sorted(ordered: Floats) -> float:
    """The median of points in order; ``np.median`` takes ten times as long over so few."""
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)
