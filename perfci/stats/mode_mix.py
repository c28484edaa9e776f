"""Two modes of a benchmark: which processes of either side are in which, and how often each side is.

A benchmark has two modes where each process settles in one of two states: a choice of kernel, a cache, a
neighbour. What happens within a mode is known well after a few processes. How often a side is in the
slow mode is not, and a change that makes it more frequent is a regression as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import bdtr, fdtrc, ndtri

from perfci.stats.location_estimates import Floats

MODE_SEPARATION = 8.0
"""Pooled standard deviations within modes that two modes are apart.

Of two sides of five normal values each, what a first look has, one in a hundred shows two groups this far
apart; of eight values a side, less than one in a thousand.
"""

MIN_MODE_VALUES = 4
"""Values a side must have; with three, two of them make a gap of any width."""

OUTLIER_SHARE = 0.2
"""Outliers are dropped up to a fifth of a side, or a tenth of both. More than that is a second mode and
belongs into the interval."""

UNLIKE_LEVEL = 0.01
"""Processes that lie further apart than the others, by an F test at this level, are no mode but outliers."""

MIX_TEST_LEVEL = 0.05
"""A matching of modes is left out if both sides would visit the modes this unlikely alike."""

CHANGED_MIX_LEVEL = 0.005
"""Below this p-value the mix has changed and is part of the estimate: the level that Benjamin et al. (2018)
ask of a claim. Not reaching it proves nothing, so the interval holds what the mix may do in any case."""

RARE_SHARE = 1 / 3
"""Share of a mode that a comparison may hardly miss: one 8 % slower moves the mean by half the usual bar."""

UNSEEN_MODE_ERROR = 0.01
"""Probability to miss such a mode at one number of pairs. A comparison that grows may stop at several: with
0.01 it misses a mode in 30 % of the values in 2.5 %, with 0.025 in 5.5 % of simulated comparisons."""

MIX_TAIL_FACTOR = 2.0
"""The interval of the shares leaves out twice as much as that of the shift: 5 % on either side.

The shift within modes is known to 2.5 %; that the modes are visited otherwise as well takes a second
coincidence.
"""


@dataclass(frozen=True, slots=True)
class ModeMix:
    """How many processes of each side are in the upper of two modes, ``gap`` log units apart.

    ``correlation`` is that of the modes within pairs, 0 for sides without pairs. Where the upper processes
    are outliers, ``largest_outlier_cluster`` is how many of them could be in one mode; it is 0 for modes.
    """

    base_upper: int
    head_upper: int
    base_total: int
    head_total: int
    gap: float
    correlation: float = 0.0
    largest_outlier_cluster: int = 0

    @property
    def share_difference(self) -> float:
        """Share of head processes in the upper mode less that of the base."""
        return self.head_upper / self.head_total - self.base_upper / self.base_total

    @property
    def p_value(self) -> float:
        """P-value of both sides visiting the modes equally often: Fisher's (1922) exact test."""
        upper, base = self.base_upper + self.head_upper, self.base_total
        total = base + self.head_total
        ways = [math.comb(upper, k) * math.comb(total - upper, base - k) for k in range(min(upper, base) + 1)]
        seen = ways[self.base_upper]
        return sum(way for way in ways if way <= seen) / math.comb(total, base)

    @property
    def has_changed(self) -> bool:
        """Whether chance is no explanation of the difference."""
        return not self.largest_outlier_cluster and self.p_value <= CHANGED_MIX_LEVEL

    @property
    def is_part_of_interval(self) -> bool:
        """Whether the mix is part of the interval; outliers are not once they are known to be rare."""
        total = min(self.base_total, self.head_total)
        return not self.largest_outlier_cluster or total < values_to_exclude_mode(
            self.largest_outlier_cluster
        )

    @property
    def mean_shift_error(self) -> float:
        """Standard error that the shares add to the shift of the mean."""
        variances = [
            (upper + 0.5) * (total - upper + 0.5) / (total + 1) ** 2 / total
            for upper, total in ((self.base_upper, self.base_total), (self.head_upper, self.head_total))
        ]
        return self.gap * math.sqrt(sum(variances) * (1 - max(self.correlation, 0.0)))

    def share_difference_interval(self, tail: float) -> tuple[float, float]:
        """Interval of the difference of the shares that leaves ``tail`` out on either side.

        Newcombe's (1998) method 10, for paired shares with the correlation r of the pairs: with Wilson's
        (1927) interval (l, u) of either share p and d = p2 - p1,

            low = d - sqrt(a^2 - 2 r a b + b^2),    a = p2 - l2,    b = u1 - p1

        and the upper end alike. Never empty: 0 of 5 on both sides still leaves room for 43 %.
        """
        z = -float(ndtri(tail))
        base_below, base_above = _wilson_distances(self.base_upper, self.base_total, z)
        head_below, head_above = _wilson_distances(self.head_upper, self.head_total, z)
        below, above = (
            math.sqrt(max(a * a - 2 * self.correlation * a * b + b * b, 0.0))
            for a, b in ((head_below, base_above), (head_above, base_below))
        )
        return self.share_difference - below, self.share_difference + above

    def mean_shift_interval(self, within: float, margin: float, tail: float) -> tuple[float, float]:
        """Interval of the shift of the mean, where that within modes is known to ``margin``.

        The mean moves by within + gap difference. Distances to the limits of both add in squares (Zou &
        Donner 2008).
        """
        low, high = self.share_difference_interval(MIX_TAIL_FACTOR * tail)
        centre = within + self.gap * self.share_difference
        below = math.hypot(margin, self.gap * (self.share_difference - low))
        above = math.hypot(margin, self.gap * (high - self.share_difference))
        return centre - below, centre + above

    def scale_to_pairs(self, pairs: int) -> ModeMix:
        """The same shares in another number of pairs."""
        return replace(
            self,
            base_upper=round(self.base_upper * pairs / self.base_total),
            head_upper=round(self.head_upper * pairs / self.head_total),
            base_total=pairs,
            head_total=pairs,
            largest_outlier_cluster=math.ceil(self.largest_outlier_cluster * pairs / self.base_total),
        )


@dataclass(frozen=True, slots=True)
class ModeFit:
    """Shift within modes by least squares with the mode as covariate.

    ``residuals`` are those of pairs; ``is_rare`` says that one of the modes may be outliers.
    """

    mix: ModeMix
    within: float
    error: float
    df: float
    residuals: Floats
    is_rare: bool


@lru_cache
def values_to_exclude_mode(outliers: int) -> int:
    """Smallest number n of values with P(X <= ``outliers``) <= 0.01 for X ~ Binomial(n, 1/3).

    If a third of all values were in a mode of their own, so many would show more of it: 12 without
    outliers, 17 with one, 22 with two.
    """
    count = outliers + 1
    while bdtr(outliers, count, RARE_SHARE) > UNSEEN_MODE_ERROR:
        count += 1
    return count


def fit_modes(base: Floats, head: Floats, resolution: float, *, is_paired: bool) -> list[ModeFit]:
    """Fits of every plausible way to match the modes of both sides; empty where there is one mode.

    A side with a single mode may be in either of the other's. The first fit has it in the lower one,
    where undisturbed processes are; the second is left out where both sides would visit the modes too
    differently.
    """
    if min(len(base), len(head)) < MIN_MODE_VALUES:
        return []
    fits = []
    for base_upper, head_upper in _match_modes(base, head, resolution):
        fit = _fit_matching(base, head, base_upper, head_upper, resolution, is_paired=is_paired)
        if fit is None:
            return []
        fits.append(fit)
    levels = (CHANGED_MIX_LEVEL, MIX_TEST_LEVEL)
    plausible = [fit for fit, level in zip(fits, levels, strict=False) if fit.mix.p_value > level]
    # where no matching is plausible, the mix has changed
    plausible = plausible or fits[:1]
    return [] if all(fit.is_rare for fit in plausible) else plausible


def _match_modes(base: Floats, head: Floats, resolution: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Masks of the processes of base and head in the upper mode, one pair for each way to match."""
    (base_cut, base_gap), (head_cut, head_gap) = _widest_gap(base), _widest_gap(head)
    if max(base_gap, head_gap) < MODE_SEPARATION * resolution:
        return
    if max(base_gap, head_gap) < 2 * min(base_gap, head_gap):
        # both sides have two modes at comparable distances: they are the same two
        yield base > base_cut, head > head_cut
    elif head_gap > base_gap:
        for in_upper in (False, True):
            yield np.full(len(base), in_upper), head > head_cut
    else:
        for in_upper in (False, True):
            yield base > base_cut, np.full(len(head), in_upper)


def _widest_gap(side: Floats) -> tuple[float, float]:
    """The middle of the widest gap of a side, and the distance of the means of both parts."""
    ordered = sorted(side.tolist())
    # rounded, so that of gaps that differ by rounding errors only the lowest is taken everywhere
    gaps = [round(after - before, 9) for before, after in pairwise(ordered)]
    cut = gaps.index(max(gaps)) + 1
    lower, upper = ordered[:cut], ordered[cut:]
    return (lower[-1] + upper[0]) / 2, sum(upper) / len(upper) - sum(lower) / len(lower)


def _fit_matching(
    base: Floats,
    head: Floats,
    base_upper: np.ndarray,
    head_upper: np.ndarray,
    resolution: float,
    *,
    is_paired: bool,
) -> ModeFit | None:
    """Weighted mean of the differences within common modes, pooled variance; None if there are no clear
    modes."""
    parts = [(base[base_upper == upper], head[head_upper == upper]) for upper in (False, True)]
    total = len(base) + len(head)
    common = [(b, h) for b, h in parts if len(b) and len(h)]
    weights = np.array([len(b) * len(h) / (len(b) + len(h)) for b, h in common])
    shifts = np.array([h.mean() - b.mean() for b, h in common])
    within = float((weights * shifts).sum() / weights.sum())
    # each mode as one group, the head without its shift
    groups = [np.concatenate([b, h - within]) for b, h in parts]
    squares = [float(((group - group.mean()) ** 2).sum()) for group in groups]
    df = total - 3
    sigma = max(math.sqrt(sum(squares) / df), resolution)
    gap = float(groups[1].mean() - groups[0].mean())
    if (
        gap < MODE_SEPARATION * sigma
        or np.ptp(shifts) > gap / 2
        or not _has_equal_spread(groups, squares, resolution)
    ):
        return None
    correlation = _mode_correlation(base_upper, head_upper) if is_paired else 0.0
    mix = ModeMix(int(base_upper.sum()), int(head_upper.sum()), len(base), len(head), gap, correlation)
    residuals = head - base - gap * (head_upper * 1.0 - base_upper) if is_paired else np.empty(0)
    is_rare = min(map(len, groups)) <= OUTLIER_SHARE / 2 * total
    return ModeFit(mix, within, sigma / math.sqrt(float(weights.sum())), df, residuals, is_rare)


def _has_equal_spread(groups: list[Floats], squares: list[float], resolution: float) -> bool:
    """Whether the processes of the rarer mode lie as close together as those of the other."""
    rare, common = sorted(range(2), key=lambda k: len(groups[k]))
    rare_df, common_df = len(groups[rare]) - 1, len(groups[common]) - 1
    if not rare_df:
        return True
    ratio = squares[rare] / rare_df / max(squares[common] / common_df, resolution**2)
    return float(fdtrc(rare_df, common_df, ratio)) > UNLIKE_LEVEL


def _mode_correlation(base_upper: np.ndarray, head_upper: np.ndarray) -> float:
    """Phi coefficient of the modes within pairs, a positive one with Newcombe's continuity correction."""
    pairs, both = len(base_upper), int((base_upper & head_upper).sum())
    base_count, head_count = int(base_upper.sum()), int(head_upper.sum())
    scale = base_count * (pairs - base_count) * head_count * (pairs - head_count)
    excess: float = pairs * both - base_count * head_count
    if excess > 0:
        excess = max(excess - pairs / 2, 0.0)
    return excess / math.sqrt(scale) if scale else 0.0


def _wilson_distances(hits: int, trials: int, z: float) -> tuple[float, float]:
    """How far Wilson's interval of a share reaches below and above the share seen."""
    share = hits / trials
    centre = (hits + z * z / 2) / (trials + z * z)
    half = z * math.sqrt(hits * (trials - hits) / trials + z * z / 4) / (trials + z * z)
    return share - (centre - half), centre + half - share
