"""What the points on both sides of a boundary say of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import MAD_TO_SIGMA, Floats
from perfci.stats.rank_tests import least_separation, separation

Z_LONG, Z_SHORT, SHORT = 4.0, 6.0, 5
"""Sigmas a step must stand out; more where a side has fewer than five points, whose noise is hardly known.
Fewer than five points at the very beginning are no level to depart from, and there is no hurry to tell."""

MIN_SEPARATION = 0.85
"""Share of (before, after) pairs in the order of the step (study, 6.2)."""

RARE = 1e-3
"""No boundary is believed that a rank test finds more likely by chance than this: one page in a thousand points is
wanted at most. It asks for more than ``MIN_SEPARATION`` where a side has less than a dozen points."""

LONG, CORE = 15, 0.75
"""From this many points a side its share of spikes is known; the quarter furthest out may then be spikes."""

MEDIAN_ERROR = 1.2533
"""Standard error of a median against that of a mean in normal data: sqrt(pi / 2)."""

PRIOR_DF = 8.0
"""What the noise of the line is worth beside that of one side: eight more points, as in comparisons of pairs. Three
points that happen to lie close together, which neighbours often do, are no proof that a level is quiet."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the points on both sides of a boundary say of it; of ``strength`` 1 is enough."""

    size: float
    strength: float
    """Size or rank separation, whichever is less of what is needed."""
    sigmas: float
    """The size in standard errors of the difference of two medians, if neighbouring points have nothing in common."""
    needed: float
    """How many of those it must be."""
    before: float
    after: float


def heard(before: Floats, after: Floats, reach: int, sigma: float, least: float) -> Evidence:
    """The evidence of the points before and after, of which so many next to the boundary tell the size.

    ``sigma`` is the noise of the whole line, ``least`` the smallest size that counts.
    """
    left, right = _Side.of(before), _Side.of(after)
    nearest = middle(in_order(before[-reach:])) if len(before) > reach else left.level
    size = (middle(in_order(after[:reach])) if len(after) > reach else right.level) - nearest
    return Evidence(
        size=size,
        strength=_strength(left, right, abs(size) / least if least else math.inf),
        sigmas=abs(size) / (MEDIAN_ERROR * math.sqrt(left.error(sigma) + right.error(sigma))),
        needed=Z_SHORT if len(before) < SHORT or len(after) < SHORT else Z_LONG,
        before=left.level,
        after=right.level,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """The points of one side in their order of size, their median, and how far they lie from it, in order as well."""

    ordered: Floats
    level: float
    distances: Floats

    @classmethod
    def of(cls, points: Floats) -> _Side:
        ordered = in_order(points)
        level = middle(ordered)
        distances = np.abs(ordered - level)
        distances.sort()
        return cls(ordered, level, distances)

    def __len__(self) -> int:
        return len(self.ordered)

    def error(self, sigma: float) -> float:
        """Variance of its mean; what a quiet side shows is moderated by the noise of the whole line (Smyth 2004)."""
        own, degrees = (MAD_TO_SIGMA * middle(self.distances)) ** 2, len(self) - 1
        return max(own, (degrees * own + PRIOR_DF * sigma**2) / (degrees + PRIOR_DF)) / len(self)

    def core(self) -> Floats:
        """The three quarters nearest to the median."""
        farthest = self.distances[int(CORE * (len(self) - 1))]
        return np.asarray(self.ordered[np.abs(self.ordered - self.level) <= farthest])


def _strength(before: _Side, after: _Side, size: float) -> float:
    """Size or rank separation, whichever is less of what is needed.

    Of long sides the separation of their cores counts too, so that a share of spikes does not hide a step.
    """
    needed = _needed(len(before), len(after))
    apart = separation(before.ordered, after.ordered) / needed
    if apart >= min(size, 1.0) or min(len(before), len(after)) < LONG:
        return min(size, apart)
    return min(size, max(apart, separation(before.core(), after.core()) / needed))


def _needed(before: int, after: int) -> float:
    if min(before, after) >= LONG:
        return MIN_SEPARATION
    return max(MIN_SEPARATION, least_separation(before, after, RARE))


def in_order(points: Floats) -> Floats:
    """The points by their size; ``np.sort`` takes twice as long over so few."""
    ordered = points.copy()
    ordered.sort()
    return ordered


def middle(ordered: Floats) -> float:
    """The median of points in order; ``np.median`` takes ten times as long over so few."""
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)
