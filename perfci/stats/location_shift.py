"""Shift of one side's levels against the other's, with its standard error.

Levels are logarithms, one per process, so a shift is a log ratio head / base. The process is the
unit of replication (Kalibera & Jones 2013): its iterations were reduced to its level before. Every
interval is

    centre - t error .. centre + t error

with t the quantile of Student's distribution with ``df`` degrees of freedom (Student 1908), and what
the mix of two modes may add. All estimates follow the head: a head that is slower by a factor moves
centre and interval by just that factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import numpy as np
from scipy.special import fdtr, fdtrc, ndtr, stdtr, stdtrit

from perfci.stats.autocorrelation import ar1_variance_inflation, correct_autocorrelation_bias
from perfci.stats.location_estimates import MAD_TO_SIGMA, Floats
from perfci.stats.mode_mix import OUTLIER_SHARE, ModeFit, ModeMix, fit_modes

LEVEL_RESOLUTION = 5e-4
"""Smallest standard deviation of a process level: 0.05 %. Repeating itself is not certainty."""

TIED_SHARE = 0.2
"""A clock is coarse where a fifth of the levels are ties; fine clocks hardly give any."""

OUTLIER_SIGMAS = 6.0
"""A process this many robust sigmas from its side is an outlier; normal data never get there."""

USUAL_DISAGREEMENT = math.pi / 3 - 1
"""Variance of the distance between mean and Hodges-Lehmann shift of normal data, in variances of the mean:
the efficiency of the latter is 3 / pi (Hodges & Lehmann 1963)."""

PAIRING_TEST_LEVEL = 0.1
"""One-sided level of the correlation of base and head from which pairing begins to count; simulated in
docs/design/statistics.md, section 2."""

SERIAL_TEST_LEVEL = 0.02
"""One-sided level of the correlation of successive pairs from which it begins to count, at which
independent pairs keep their power; simulated in docs/design/statistics.md, section 2."""

NOISIER_LEVEL, QUIETER_LEVEL = 0.3, 0.005
"""One-sided p-values of a variance under the prior below which the prior loses weight in proportion.

A prior that is too quiet costs coverage, one that is too noisy only power. In batches where one benchmark
of five has five times the noise of the others, intervals of five pairs cover its truth in 94 %; in 91 %
at a level of 0.1, and in 95 % without a prior. A prior from benchmarks of equal noise loses 4 % of its worth.
"""


@dataclass(frozen=True, slots=True)
class Shift:
    """A log ratio head / base with its standard error, ``df`` degrees of freedom of that error.

    ``rank_centre`` is the shift of Hodges & Lehmann, where it may disagree with the mean.
    ``resolution_error`` is the part of the error that comes from a coarse clock, which more pairs do
    not reduce. ``mix`` is how often either side was in which mode, and ``readings`` are the shifts by
    each way to match the modes, where there are several.
    """

    centre: float
    error: float
    df: float
    pairs: int
    rank_centre: float | None = None
    resolution_error: float = 0.0
    mix: ModeMix | None = None
    readings: tuple[Shift, ...] = ()

    @property
    def sampling_error(self) -> float:
        """The part of the error that shrinks with more pairs."""
        return math.sqrt(max(self.error**2 - self.resolution_error**2, 0.0))

    @property
    def centre_range(self) -> tuple[float, float]:
        """The least and the greatest shift that the data may be read as; a move needs both to agree."""
        if self.readings:
            return _hull([reading.centre_range for reading in self.readings])
        other = self.centre if self.rank_centre is None else self.rank_centre
        return min(self.centre, other), max(self.centre, other)

    @property
    def modes(self) -> ModeMix | None:
        """The two modes of the benchmark; None where it has one."""
        if self.readings:
            return self.readings[0].modes
        return None if self.mix is None or self.mix.largest_outlier_cluster else self.mix

    @property
    def is_shift_of_mean(self) -> bool:
        """Whether the centre is the shift of the mean, because the mix of modes changed."""
        return self.mix is not None and self.mix.has_changed

    def half_width(self, tail: float = 0.025) -> float:
        """Half the width of the interval that leaves ``tail`` out on either side."""
        low, high = self.bounds(tail)
        return (high - low) / 2

    def bounds(self, tail: float = 0.025) -> tuple[float, float]:
        """The interval that leaves ``tail`` out on either side; infinite without a known error.

        It holds the shift within modes and that of the mean, which also moves with the mix of modes.
        """
        if self.readings:
            return _hull([reading.bounds(tail) for reading in self.readings])
        bounds = self.bounds_of_move(tail)
        if self.mix is None or self.is_shift_of_mean or not self.mix.is_part_of_interval:
            return bounds
        return _hull([bounds, self.mix.mean_shift_interval(self.centre, self._margin(tail), tail)])

    def bounds_of_move(self, tail: float = 0.025) -> tuple[float, float]:
        """The interval on which a move is judged: within modes, unless their mix changed."""
        if self.readings:
            return _hull([reading.bounds_of_move(tail) for reading in self.readings])
        margin = self._margin(tail)
        if self.mix is not None and self.is_shift_of_mean:
            within = self.centre - self.mix.gap * self.mix.share_difference
            return self.mix.mean_shift_interval(within, margin, tail)
        return self.centre - margin, self.centre + margin

    def p_value(self, null: float = 0.0) -> float:
        """Two-sided p-value of the shift being no larger than ``null`` in either direction; 1 without a
        known error."""
        if self.readings:
            return max(reading.p_value(null) for reading in self.readings)
        if self.df <= 0 or not math.isfinite(self.error):
            return 1.0
        error = (
            math.hypot(self.error, self.mix.mean_shift_error)
            if self.mix and self.is_shift_of_mean
            else self.error
        )
        low, high = self.centre_range
        return min(1.0, 2 * float(stdtr(self.df, (null - max(low, -high)) / error)))

    def scale_to_pairs(self, pairs: int) -> Shift:
        """What so many pairs would probably show at the same estimate and noise."""
        growth = pairs / self.pairs
        return replace(
            self,
            error=math.hypot(self.sampling_error / math.sqrt(growth), self.resolution_error),
            df=self.df * growth,
            pairs=pairs,
            mix=self.mix.scale_to_pairs(pairs) if self.mix else None,
            readings=tuple(reading.scale_to_pairs(pairs) for reading in self.readings),
        )

    def _margin(self, tail: float) -> float:
        is_known = self.df > 0 and math.isfinite(self.error)
        return float(-stdtrit(self.df, tail)) * self.error if is_known else math.inf


def _hull(intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The smallest interval that holds all."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)


@dataclass(frozen=True, slots=True)
class NoisePrior:
    """Prior standard deviation of one pair's log ratio, worth ``df`` observations."""

    sd: float
    df: float


def estimate_shift(
    base: Floats, head: Floats, *, is_paired: bool = True, prior: NoisePrior | None = None
) -> Shift:
    """Estimate the shift of head against base from log levels of shapes (n,) and (m,); those of pairs are of
    equal shape and in the order of time.

    Within modes where there are two, else by Welch, of pairs as a blend of the paired and the unpaired
    estimate. A single process has no error of its own.
    """
    if min(len(base), len(head)) == 1:
        shift = Shift(float(np.median(head) - np.median(base)), math.inf, 0.0, 1)
    else:
        resolution = level_resolution(base, head)
        estimate = _blend_paired_and_unpaired if is_paired else welch_unpaired_shift
        within_modes = shift_within_modes(base, head, resolution, is_paired=is_paired)
        shift = _add_resolution(within_modes or estimate(base, head, resolution), resolution)
    return shift if prior is None else shrink_standard_error(shift, prior)


def level_resolution(base: Floats, head: Floats) -> float:
    """Standard deviation of reading a level from a clock: its step / sqrt(12) where the clock is coarse.

    The step is the smallest distance of two levels of a side. At least ``LEVEL_RESOLUTION``.
    """
    # rounded, so that rounding errors make no steps; a constant side says nothing of the clock
    sides = [side for side in (base, head) if np.ptp(side) > 1e-9]
    distinct = [sorted(set(np.round(side, 9).tolist())) for side in sides]
    total = sum(map(len, sides))
    if not total or total - sum(map(len, distinct)) < TIED_SHARE * total:
        return LEVEL_RESOLUTION
    step = min(after - before for levels in distinct for before, after in pairwise(levels))
    return max(LEVEL_RESOLUTION, float(step) / math.sqrt(12))


def _add_resolution(shift: Shift, resolution: float) -> Shift:
    """Add what a coarse clock leaves open on either side.

    What all readings of a side have in common is not reduced by their number (Guide to the Expression of
    Uncertainty in Measurement, F.2.2.1), so it is added in squares to the error of the shift.
    """
    if resolution <= LEVEL_RESOLUTION:
        return shift
    doubt = math.sqrt(2) * resolution
    readings = tuple(_add_resolution(reading, resolution) for reading in shift.readings)
    return replace(shift, error=math.hypot(shift.error, doubt), resolution_error=doubt, readings=readings)


def shift_within_modes(base: Floats, head: Floats, resolution: float, *, is_paired: bool) -> Shift | None:
    """Shift of processes in the same mode; None where there is one mode.

    Where the mix evidently changed, the shift is that of the mean. Where the modes can be matched in
    two ways, the interval spans both, and the centre is the mean as well, which is the same for both.
    """
    fits = fit_modes(base, head, resolution, is_paired=is_paired)
    readings = tuple(_shift_from_fit(fit, min(len(base), len(head))) for fit in fits)
    if len(readings) < 2:
        return readings[0] if readings else None
    error = max(reading.error for reading in readings)
    return replace(
        readings[0], centre=float(head.mean() - base.mean()), error=error, mix=None, readings=readings
    )


def _shift_from_fit(fit: ModeFit, pairs: int) -> Shift:
    error = fit.error * math.sqrt(serial_variance_inflation(fit.residuals))
    centre = fit.within + fit.mix.gap * fit.mix.share_difference if fit.mix.has_changed else fit.within
    return Shift(centre, error, fit.df, pairs, mix=fit.mix)


def welch_unpaired_shift(base: Floats, head: Floats, resolution: float = LEVEL_RESOLUTION) -> Shift:
    """Shift of two independent sides by Welch (1947), outliers dropped.

    With s^2 / n of either side, the variance is their sum V, its degrees of freedom V^2 / sum((s^2
    / n)^2 / (n - 1)). The centre is the difference of means; how far the shift of Hodges & Lehmann (1963)
    is from it is added to the error in squares, less what it is on normal data, and a move needs both.
    Where a few processes with heavy tails pull them apart, a t interval would trust the mean alone, and
    a handful of processes cannot say which of the two is right.
    """
    residuals = [side - median(side.tolist()) for side in (base, head)]
    limit = OUTLIER_SIGMAS * _robust_sigma(np.concatenate(residuals), 2, resolution)
    far = [np.abs(distances) > limit for distances in residuals]
    kept, shares = [], []
    for side, is_far in zip((base, head), far, strict=True):
        near = side[~is_far]
        few = np.count_nonzero(is_far) <= OUTLIER_SHARE * len(side)
        kept.append(near if few and len(near) >= 2 else side)
        variance = max(float(kept[-1].var(ddof=1)), resolution**2) if len(kept[-1]) > 1 else math.inf
        shares.append(variance / len(kept[-1]))
    kept_base, kept_head = kept
    share_base, share_head = shares
    total = share_base + share_head
    df = total**2 / (share_base**2 / max(len(kept_base) - 1, 1) + share_head**2 / max(len(kept_head) - 1, 1))
    mean = float(kept_head.mean() - kept_base.mean())
    hodges_lehmann = float(np.median(np.subtract.outer(head, base)))
    if resolution > LEVEL_RESOLUTION:
        # of a coarse clock, the median of differences is a step
        hodges_lehmann = mean
    excess = (mean - hodges_lehmann) ** 2 - USUAL_DISAGREEMENT * total
    error = math.sqrt(total + max(excess, 0.0))
    # a fast process of one side counts as a slow one of the other
    distances = np.concatenate([-residuals[0][far[0]], residuals[1][far[1]]])
    mix = _describe_outliers(distances, limit, len(base), len(head))
    return Shift(mean, error, df, min(len(base), len(head)), hodges_lehmann, mix=mix)


def student_paired_shift(base: Floats, head: Floats, resolution: float = LEVEL_RESOLUTION) -> Shift:
    """Student's t of the log ratios of pairs, outliers dropped; interleaving cancels drift (Bulej
    et al. 2020).

    Centre mean(r), error s / sqrt(n), n - 1 degrees of freedom.
    """
    ratios = head - base
    near, limit = _inlier_pairs(ratios, resolution)
    kept = ratios[near]
    # a ratio has the resolution of two levels
    variance = max(float(kept.var(ddof=1)), 2 * resolution**2)
    mix = _describe_outliers((ratios - kept.mean())[~near], limit, len(base), len(head))
    return Shift(float(kept.mean()), math.sqrt(variance / len(kept)), len(kept) - 1, len(base), mix=mix)


def _describe_outliers(distances: Floats, limit: float, base_total: int, head_total: int) -> ModeMix | None:
    """Outliers as if they were a mode, those that speed the head up as one of the base; None without any.

    Those within ``limit`` of each other could be in one mode, as all processes of a mode are.
    """
    if not len(distances):
        return None
    slower = int((distances > 0).sum())
    gap = float(np.abs(distances).mean())
    return ModeMix(
        min(len(distances) - slower, base_total),
        min(slower, head_total),
        base_total,
        head_total,
        gap,
        largest_outlier_cluster=int(
            (np.abs(np.subtract.outer(distances, distances)) <= limit).sum(axis=1).max()
        ),
    )


def shrink_standard_error(shift: Shift, prior: NoisePrior) -> Shift:
    """Shrink the standard error towards a prior: the moderated t of Smyth (2004).

    With own variance s^2 on d and prior variance s0^2 on d0 degrees of freedom: (d s^2 + d0 s0^2) /
    (d + d0) on d + d0. Where s^2 is unlikely under the prior by the F distribution, d0 is reduced in
    proportion to the p-value, so that a wrong prior cannot overrule the pairs (Evans & Moshonov 2006).
    """
    if prior.df <= 0:
        return shift
    if shift.readings:
        readings = tuple(shrink_standard_error(reading, prior) for reading in shift.readings)
        widest = max(readings, key=lambda reading: reading.error)
        return replace(shift, error=widest.error, df=widest.df, readings=readings)
    prior_error = prior.sd / math.sqrt(shift.pairs)
    if shift.df <= 0 or not math.isfinite(shift.error):
        return replace(shift, error=prior_error, df=prior.df)
    if prior_error <= 0:
        return shift
    ratio = (shift.sampling_error / prior_error) ** 2
    noisier, quieter = (float(f(shift.df, prior.df, ratio)) for f in (fdtrc, fdtr))
    prior_df = prior.df * min(noisier / NOISIER_LEVEL, quieter / QUIETER_LEVEL, 1.0)
    df = shift.df + prior_df
    variance = (shift.df * shift.sampling_error**2 + prior_df * prior_error**2) / df
    return replace(shift, error=math.hypot(math.sqrt(variance), shift.resolution_error), df=df)


def _blend_paired_and_unpaired(base: Floats, head: Floats, resolution: float) -> Shift:
    """Blend the variances of the paired and the unpaired estimate by how doubtful the correlation
    of the sides is.

    A hard choice would take the pairs whenever their spread happens to be small, and its intervals
    would be too short.
    """
    paired = student_paired_shift(base, head, resolution)
    if len(base) < 4:
        return paired
    unpaired = welch_unpaired_shift(base, head, resolution)
    near, _ = _inlier_pairs(head - base, resolution)
    doubt = min(_correlation_p_value(base[near], head[near]) / PAIRING_TEST_LEVEL, 1.0)
    growth = math.sqrt(serial_variance_inflation((head - base)[near]))
    if doubt == 1.0:
        return replace(unpaired, error=unpaired.error * growth)
    variance = doubt * unpaired.error**2 + (1 - doubt) * paired.error**2
    # never less than the error of the pairs alone: their degrees of freedom are kept
    return replace(paired, error=math.sqrt(max(variance, paired.error**2)) * growth)


def _correlation_p_value(base: Floats, head: Floats) -> float:
    """One-sided p-value of Pearson's correlation of both sides, by its t test."""
    spread = float(base.std() * head.std())
    if spread <= LEVEL_RESOLUTION**2 or len(base) < 4:
        return 1.0
    r = float(((base - base.mean()) * (head - head.mean())).mean()) / spread
    r = min(max(r, -0.999999), 0.999999)
    df = len(base) - 2
    return float(stdtr(df, -r * math.sqrt(df / (1 - r * r))))


def serial_variance_inflation(residuals: Floats) -> float:
    """How much larger the variance of the mean of successive residuals is than that of independent ones.

    (1 + r) / (1 - r) of a first-order autoregression. Its r is Young's (1941) statistic of neighbours

        C = 1 - sum((x(i+1) - x(i))^2) / (2 sum((x - m)^2))

    without the bias of having fitted a mean; half of the first and last square are part of it. Without
    correlation C has mean 0 and variance (n - 2) / (n^2 - 1), and its p-value says how far the inflation
    counts, as with pairing. At most n: a single independent observation.
    """
    count = len(residuals)
    if count < MIN_SERIAL_PAIRS:
        return 1.0
    centred = residuals - residuals.mean()
    squares = float((centred**2).sum())
    if squares <= count * LEVEL_RESOLUTION**2:
        return 1.0
    neighbours = 1 - float((np.diff(centred) ** 2).sum()) / (2 * squares)
    p_value = float(ndtr(-neighbours * math.sqrt((count**2 - 1) / (count - 2))))
    doubt = p_value / SERIAL_TEST_LEVEL
    if doubt >= 1:
        return 1.0
    r = min(correct_autocorrelation_bias(neighbours, count, 0, 4), (count - 1) / (count + 1))
    return doubt + (1 - doubt) * ar1_variance_inflation(r)


MIN_SERIAL_PAIRS = 8
"""Pairs from which the correlation of successive ones can be told from chance: with five, intervals of
pairs correlated by 0.8 cover 69 % with and 68 % without."""


def _inlier_pairs(ratios: Floats, resolution: float) -> tuple[np.ndarray, float]:
    """Mask (n,) of the pairs whose ratio is no outlier, at most a fifth masked out, and their limit."""
    residuals = ratios - median(ratios.tolist())
    limit = OUTLIER_SIGMAS * _robust_sigma(residuals, 1, resolution)
    near = np.abs(residuals) <= limit
    few = np.count_nonzero(~near) <= OUTLIER_SHARE * len(ratios)
    return near if few and np.count_nonzero(near) >= 3 else np.ones(len(ratios), dtype=bool), limit


def _robust_sigma(residuals: Floats, centres: int, resolution: float) -> float:
    """Robust sigma of residuals, without the ``centres`` smallest, which are zero by construction
    of the median."""
    distances = np.sort(np.abs(residuals))[centres:]
    if not len(distances):
        return resolution
    return max(MAD_TO_SIGMA * float(median(distances.tolist())), resolution)
