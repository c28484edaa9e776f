"""Noise prior of a benchmark: from the others of its session, else from its own A/A history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scipy.special import fdtrc

from perfci.model import MetricClass
from perfci.stats.location_shift import LEVEL_RESOLUTION, NoisePrior, Shift
from perfci.stats.noise_floor import MIN_AA_RUNS, robust_sd_about_zero
from perfci.stats.variance_prior import fit_noise_prior

PRIOR_DF = 8.0
"""Pairs a known standard deviation is worth: eight, so fresh pairs can still overrule it."""

NOISE_CHANGE_LEVEL = 0.05
"""Noise this unlikely under the history (the usual level) is other noise, and the history is
ignored."""


REPEATING_VARIANCE = 2.001 * LEVEL_RESOLUTION**2
"""Variance of one pair's log ratio, just above the least that is assumed of any."""


@dataclass(frozen=True, slots=True)
class PairNoise:
    """Variance of one pair's log ratio, from its own pairs and from earlier A/A runs."""

    metric_class: MetricClass
    variance: float
    df: float
    aa_variance: float | None = None
    aa_runs: int = 0

    @classmethod
    def from_shift(
        cls, metric_class: MetricClass, shift: Shift, aa_runs: Sequence[tuple[float, int]] = ()
    ) -> PairNoise | None:
        """Build from a shift; None where a single pair has no error. ``aa_runs`` are (log ratio,
        pairs).

        The true log ratio of an A/A run is 0, so each one is an observation of the variance by itself. They
        are joined as those of a noise floor are: one bad night of ten raises their variance by half.
        """
        variance = shift.sampling_error**2 * shift.pairs
        # a benchmark that repeats exactly says nothing of the noise of others
        if shift.df <= 0 or not REPEATING_VARIANCE < variance < float("inf"):
            return None
        aa_sd = 0.0
        if len(aa_runs) >= MIN_AA_RUNS:
            aa_sd = robust_sd_about_zero([ratio * math.sqrt(pairs) for ratio, pairs in aa_runs])
        return cls(metric_class, variance, shift.df, aa_sd**2 or None, len(aa_runs))


def pooled_noise_prior(noises: Mapping[Any, PairNoise], key: object) -> NoisePrior | None:
    """Noise prior of one benchmark from all of its metric class that are measured beside it, itself included
    (Smyth 2004).

    Without enough of the class its own history decides, unless today's noise plainly differs from it.
    """
    own = noises.get(key)
    if own is None:
        return None
    group = [noise for noise in noises.values() if noise.metric_class is own.metric_class]
    df = median(noise.df for noise in group)
    return fit_noise_prior([noise.variance for noise in group], df) or _aa_noise_prior(own)


def _aa_noise_prior(own: PairNoise) -> NoisePrior | None:
    """Prior from A/A runs alone; None where today's variance is an outlier, as in the robust
    version of Phipson et al. (2016)."""
    if not own.aa_variance:
        return None
    # of a larger ratio of two variances, by the F distribution
    p_value = float(fdtrc(own.df, own.aa_runs, own.variance / own.aa_variance))
    if p_value < NOISE_CHANGE_LEVEL:
        return None
    return NoisePrior(own.aa_variance**0.5, min(float(own.aa_runs), PRIOR_DF))
