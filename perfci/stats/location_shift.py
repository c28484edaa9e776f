"""Shift of one side's levels against the other's, with its standard error.

Levels are logarithms, one per process, so a shift is a log ratio head / base. The process is the
unit of replication (Kalibera & Jones 2013): its iterations were reduced to its level before. Every
interval is

    centre - extra_below - t error .. centre + extra_above + t error

with t the quantile of Student's distribution with ``df`` degrees of freedom (Student 1908).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtr, fdtrc, stdtr, stdtrit

from perfci.stats.location_estimates import MAD_TO_SIGMA, Floats

LEVEL_RESOLUTION = 5e-4
"""Smallest standard deviation of a process level: 0.05 %. Ties in a coarse clock are not certainty."""

OUTLIER_SIGMAS = 6.0
"""A process this many robust sigmas from its side is an outlier; normal data never get there."""

OUTLIER_SHARE = 0.2
"""Outliers are dropped up to a fifth of a side; more than that is a second mode and belongs into
the interval."""

MIX_TEST_LEVEL = 0.05
"""Mixes of modes differ below this p-value, the usual one in twenty."""

STRICT_TEST_LEVEL = 0.005
"""Below this p-value chance is no explanation at all (Benjamin et al. 2018), so nothing else is
allowed for."""

PAIRING_TEST_LEVEL = 0.1
"""One-sided level of the correlation of base and head from which pairing begins to count.

In simulated normal pairs with a correlation of 0.36 the intervals of 12 pairs are 5 % shorter at
this level than at 2.5 %, with 0.9 those of 5 pairs by a quarter; without correlation they cover the
truth in 94.7 %, against 95.0 %.
"""

MODE_SEPARATION, JOINT_SEPARATION = 5.0, 8.0
"""Within-mode sigmas two modes must be apart on each side, and on both sides taken together.

Ashman, Bird & Zepf (1994) ask for 2 where the modes are known; here the widest gap of a few values
is selected.
"""


@dataclass(frozen=True, slots=True)
class Shift:
    """A log ratio head / base with its standard error, ``df`` degrees of freedom of that error.

    ``extra_below`` and ``extra_above`` extend the interval where the modes can be matched in
    several ways.
    """

    centre: float
    error: float
    df: float
    pairs: int
    method: str = "paired"
    extra_below: float = 0.0
    extra_above: float = 0.0

    def half_width(self, tail: float = 0.025) -> float:
        """Half the width of the interval that leaves ``tail`` out on either side."""
        return self._margin(tail) + (self.extra_below + self.extra_above) / 2

    def bounds(self, tail: float = 0.025) -> tuple[float, float]:
        """The interval that leaves ``tail`` out on either side; infinite without a known error."""
        reach = self._margin(tail)
        return self.centre - self.extra_below - reach, self.centre + self.extra_above + reach

    def p_value(self, null: float = 0.0) -> float:
        """Two-sided p-value of the shift being no larger than ``null`` in either direction; 1 without a
        known error."""
        if self.df <= 0 or not math.isfinite(self.error):
            return 1.0
        distances = self.centre - self.extra_below - null, -null - self.centre - self.extra_above
        return min(1.0, *(2 * float(stdtr(self.df, -distance / self.error)) for distance in distances))

    def _margin(self, tail: float) -> float:
        is_known = self.df > 0 and math.isfinite(self.error)
        return float(-stdtrit(self.df, tail)) * self.error if is_known else math.inf


@dataclass(frozen=True, slots=True)
class NoisePrior:
    """Prior standard deviation of one pair's log ratio, worth ``df`` observations."""

    sd: float
    df: float


def estimate_paired_shift(base: Floats, head: Floats, *, prior: NoisePrior | None = None) -> Shift:
    """Estimate the shift of head against base from paired log levels of shape (n,) each.

    Within modes where both sides visit two, else a blend of the paired and the unpaired estimate. A
    single pair has no error of its own.
    """
    if len(base) == 1:
        shift = Shift(float(head[0] - base[0]), math.inf, 0.0, 1)
    else:
        shift = within_mode_shift(base, head) or _blend_paired_and_unpaired(base, head)
    return shift if prior is None else shrink_standard_error(shift, prior)


def estimate_unpaired_shift(base: Floats, head: Floats, *, prior: NoisePrior | None = None) -> Shift:
    """Estimate the shift of independent sides; shapes (n,) and (m,)."""
    if min(len(base), len(head)) == 1:
        shift = Shift(float(np.median(head) - np.median(base)), math.inf, 0.0, 1, "unpaired")
    else:
        shift = within_mode_shift(base, head) or welch_unpaired_shift(base, head)
    return shift if prior is None else shrink_standard_error(shift, prior)


def welch_unpaired_shift(base: Floats, head: Floats) -> Shift:
    """Shift of two independent sides by Welch (1947), outliers dropped.

    With s^2 / n of either side, the variance is their sum V, its degrees of freedom V^2 / sum((s^2
    / n)^2 / (n - 1)). The centre is the smaller of the mean and the shift of Hodges & Lehmann
    (1963), their difference added to the error in squares. On normal data both agree. Where a few
    processes with heavy tails pull them apart, a t interval would trust the mean alone, and a
    handful of processes cannot say which of the two is right.
    """
    # disturbances only slow a process down: those far above the others of their side are dropped, but no
    # more than a fifth of it
    residuals = [side - np.median(side) for side in (base, head)]
    limit = OUTLIER_SIGMAS * _robust_sigma(np.concatenate(residuals), centres=2)
    kept, shares = [], []
    for side, distances in zip((base, head), residuals, strict=True):
        near = distances <= limit
        few = np.count_nonzero(~near) <= OUTLIER_SHARE * len(side)
        kept.append(side[near] if few and np.count_nonzero(near) >= 2 else side)
        variance = max(float(kept[-1].var(ddof=1)), LEVEL_RESOLUTION**2) if len(kept[-1]) > 1 else math.inf
        shares.append(variance / len(kept[-1]))
    kept_base, kept_head = kept
    share_base, share_head = shares
    total = share_base + share_head
    df = total**2 / (share_base**2 / max(len(kept_base) - 1, 1) + share_head**2 / max(len(kept_head) - 1, 1))
    mean = float(kept_head.mean() - kept_base.mean())
    hodges_lehmann = float(np.median(np.subtract.outer(head, base)))
    error = math.hypot(math.sqrt(total), mean - hodges_lehmann)
    return Shift(min(mean, hodges_lehmann, key=abs), error, df, min(len(base), len(head)), "unpaired")


def student_paired_shift(base: Floats, head: Floats) -> Shift:
    """Student's t of the log ratios of pairs, outliers dropped; interleaving cancels drift (Bulej
    et al. 2020).

    Centre mean(r), error s / sqrt(n), n - 1 degrees of freedom.
    """
    ratios = head - base
    kept = ratios[_inlier_pairs(ratios)]
    # a ratio has the resolution of two levels
    variance = max(float(kept.var(ddof=1)), 2 * LEVEL_RESOLUTION**2)
    return Shift(float(kept.mean()), math.sqrt(variance / len(kept)), len(kept) - 1, len(base), "paired")


def within_mode_shift(base: Floats, head: Floats) -> Shift | None:
    """Shift of processes in the same mode; None where no side has two modes, or where the mix of
    modes changed.

    Least squares with the mode as covariate, so that how often a side visited a mode does not move
    the estimate. If Fisher's test says that the mix differs, the mix itself is the change and the
    sides are compared as they are. If it is doubtful, the interval spans both estimates.
    """
    if min(len(base), len(head)) < 4:
        return None
    readings = [(modes, _fisher_exact_p_value(modes)) for modes in _match_modes(base, head)]
    plausible = [
        modes
        for k, (modes, p_value) in enumerate(readings)
        if p_value > (STRICT_TEST_LEVEL if k == 0 else MIX_TEST_LEVEL)
    ]
    fits = [fit for modes in plausible if (fit := _fit_within_mode_shift(modes)) is not None]
    if not fits or len(fits) < len(plausible):
        return None
    doubtful = len(readings) == 1 and readings[0][1] <= MIX_TEST_LEVEL
    return _span_shifts([*fits, welch_unpaired_shift(base, head)] if doubtful else fits)


@dataclass(frozen=True, slots=True)
class ModeMix:
    """How many processes of each side are in the upper of two modes, and its log distance from the
    lower.

    ``p_value`` is that of both sides visiting the modes alike; ``spans_matchings`` that the
    interval allows for other matchings as well.
    """

    base_upper: int
    head_upper: int
    base_total: int
    head_total: int
    mode_gap: float
    p_value: float
    compared_within_modes: bool
    spans_matchings: bool


def describe_mode_mix(base: Floats, head: Floats) -> ModeMix | None:
    """Describe the modes both sides visit in the likeliest matching; None where there is one mode."""
    if min(len(base), len(head)) < 4:
        return None
    matchings = [modes for modes in _match_modes(base, head) if _fit_within_mode_shift(modes) is not None]
    if not matchings:
        return None
    modes, within = max(matchings, key=_fisher_exact_p_value), within_mode_shift(base, head)
    upper_base, upper_head = modes[1]
    return ModeMix(
        len(upper_base),
        len(upper_head),
        len(base),
        len(head),
        mode_gap=_mode_gap(modes),
        p_value=_fisher_exact_p_value(modes),
        compared_within_modes=within is not None,
        spans_matchings=within is not None and max(within.extra_below, within.extra_above) > 0,
    )


ModeMembers = tuple[Floats, Floats]
"""Log levels of base and head that are in one mode; either may be empty."""


def _match_modes(base: Floats, head: Floats) -> list[tuple[ModeMembers, ModeMembers]]:
    """Possible matchings of the base's modes with the head's, as (lower, upper) modes.

    Where one side has a single mode, the first matching has it in the lower one: neighbours only
    slow processes down, so the lower is the undisturbed one.
    """
    # split each side at its widest gap, where both parts are clearly apart
    splits: list[tuple[Floats, Floats] | None] = []
    gaps: list[float] = []
    for side in (base, head):
        ordered = np.sort(side)
        # rounded, so that of gaps that differ by rounding errors only the lowest is taken everywhere
        cut = int(np.argmax(np.round(np.diff(ordered), 9))) + 1
        low, high = ordered[:cut], ordered[cut:]
        squares = float(((low - low.mean()) ** 2).sum()) + float(((high - high.mean()) ** 2).sum())
        within = math.sqrt(squares / max(len(side) - 2, 1))
        gap = float(high.mean() - low.mean())
        is_apart = gap >= MODE_SEPARATION * max(within, LEVEL_RESOLUTION)
        splits.append((low, high) if is_apart else None)
        gaps.append(gap if is_apart else 0.0)
    nothing = np.empty(0)
    # both sides have two modes at comparable distances: they are the same two
    if splits[0] and splits[1] and max(gaps) < 2 * min(gaps):
        return [((splits[0][0], splits[1][0]), (splits[0][1], splits[1][1]))]
    if splits[1] and gaps[1] > gaps[0]:
        low, high = splits[1]
        return [((base, low), (nothing, high)), ((nothing, low), (base, high))]
    if splits[0]:
        low, high = splits[0]
        return [((low, head), (high, nothing)), ((low, nothing), (high, head))]
    return []


def _fit_within_mode_shift(modes: tuple[ModeMembers, ModeMembers]) -> Shift | None:
    """Weighted mean of the differences within common modes, pooled variance; None if the modes are
    not clear."""
    common = [(b, h) for b, h in modes if len(b) and len(h)]
    weights = np.array([len(b) * len(h) / (len(b) + len(h)) for b, h in common])
    shifts = np.array([h.mean() - b.mean() for b, h in common])
    centre = float(np.average(shifts, weights=weights))
    parts = [part - part.mean() for pair in modes for part in pair if len(part)]
    squares = sum(float((part**2).sum()) for part in parts) + float((weights * (shifts - centre) ** 2).sum())
    counts = [sum(len(pair[side]) for pair in modes) for side in (0, 1)]
    df = sum(counts) - len(parts) + len(common) - 1
    variance = max(squares / df, LEVEL_RESOLUTION**2)
    if _mode_gap(modes) < JOINT_SEPARATION * math.sqrt(variance) or np.ptp(shifts) > _mode_gap(modes) / 2:
        return None
    return Shift(centre, math.sqrt(variance / float(weights.sum())), df, min(counts), "modes")


def _span_shifts(shifts: Sequence[Shift]) -> Shift:
    """The smallest of several shifts, its interval extended to cover those of the others."""
    smallest = min(shifts, key=lambda shift: abs(shift.centre))
    bounds = [shift.bounds() for shift in shifts]
    low, high = smallest.bounds()
    return replace(
        smallest,
        extra_below=low - min(low for low, _ in bounds),
        extra_above=max(high for _, high in bounds) - high,
    )


def _fisher_exact_p_value(modes: tuple[ModeMembers, ModeMembers]) -> float:
    """P-value of base and head visiting the modes equally often: Fisher's (1922) exact test of a 2 x 2
    table."""
    (low_base, low_head), (high_base, high_head) = ((len(b), len(h)) for b, h in modes)
    low, base, total = low_base + low_head, low_base + high_base, low_base + low_head + high_base + high_head
    ways = [
        math.comb(low, k) * math.comb(total - low, base - k)
        for k in range(min(low, base) + 1)
        if base - k >= 0
    ]
    observed = math.comb(low, low_base) * math.comb(total - low, base - low_base)
    return sum(way for way in ways if way <= observed) / math.comb(total, base)


def _mode_gap(modes: tuple[ModeMembers, ModeMembers]) -> float:
    """Mean log distance of the modes over the sides that visit both."""
    gaps = [
        float(high.mean() - low.mean()) for low, high in zip(*modes, strict=True) if len(low) and len(high)
    ]
    return sum(gaps) / len(gaps)


def shrink_standard_error(shift: Shift, prior: NoisePrior) -> Shift:
    """Shrink the standard error towards a prior: the moderated t of Smyth (2004).

    With own variance s^2 on d and prior variance s0^2 on d0 degrees of freedom: (d s^2 + d0 s0^2) /
    (d + d0) on d + d0. A prior that the pairs contradict beyond chance, by the F distribution, is left
    out (Evans & Moshonov 2006), so a wrong prior cannot overrule them.
    """
    if prior.df <= 0:
        return shift
    prior_error = prior.sd / math.sqrt(shift.pairs)
    if shift.df <= 0 or not math.isfinite(shift.error):
        return replace(shift, error=prior_error, df=prior.df)
    if prior_error <= 0:
        return shift
    ratio = (shift.error / prior_error) ** 2
    if min(fdtr(shift.df, prior.df, ratio), fdtrc(shift.df, prior.df, ratio)) < STRICT_TEST_LEVEL / 2:
        return shift
    df = shift.df + prior.df
    variance = (shift.df * shift.error**2 + prior.df * prior_error**2) / df
    return replace(shift, error=math.sqrt(variance), df=df)


def _blend_paired_and_unpaired(base: Floats, head: Floats) -> Shift:
    """Blend the variances of the paired and the unpaired estimate by how doubtful the correlation
    of the sides is.

    A hard choice would take the pairs whenever their spread happens to be small, and its intervals
    would be too short.
    """
    paired, unpaired = student_paired_shift(base, head), welch_unpaired_shift(base, head)
    if len(base) < 4:
        return paired
    kept = _inlier_pairs(head - base)
    doubt = min(_correlation_p_value(base[kept], head[kept]) / PAIRING_TEST_LEVEL, 1.0)
    if doubt == 1.0:
        return unpaired
    variance = doubt * unpaired.error**2 + (1 - doubt) * paired.error**2
    # never less than the error of the pairs alone: their degrees of freedom are kept
    return replace(paired, error=math.sqrt(max(variance, paired.error**2)))


def _correlation_p_value(base: Floats, head: Floats) -> float:
    """One-sided p-value of Pearson's correlation of both sides, by its t test."""
    spread = float(base.std() * head.std())
    if spread <= LEVEL_RESOLUTION**2 or len(base) < 4:
        return 1.0
    r = float(((base - base.mean()) * (head - head.mean())).mean()) / spread
    r = min(max(r, -0.999999), 0.999999)
    df = len(base) - 2
    return float(stdtr(df, -r * math.sqrt(df / (1 - r * r))))


def _inlier_pairs(ratios: Floats) -> np.ndarray:
    """Mask of shape (n,) of the pairs whose ratio is no outlier; at most a fifth is masked out."""
    residuals = ratios - np.median(ratios)
    near = np.abs(residuals) <= OUTLIER_SIGMAS * _robust_sigma(residuals, centres=1)
    few = np.count_nonzero(~near) <= OUTLIER_SHARE * len(ratios)
    return near if few and np.count_nonzero(near) >= 3 else np.ones(len(ratios), dtype=bool)


def _robust_sigma(residuals: Floats, centres: int) -> float:
    """Robust sigma of residuals, without the ``centres`` smallest, which are zero by construction
    of the median."""
    distances = np.sort(np.abs(residuals))[centres:]
    if not len(distances):
        return LEVEL_RESOLUTION
    return max(MAD_TO_SIGMA * float(np.median(distances)), LEVEL_RESOLUTION)
