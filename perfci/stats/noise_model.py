"""How much a comparison of equals still shows: floors and priors from A/A history."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfci.stats.location import MAD_TO_SIGMA, Floats
from perfci.stats.location_shift import NoisePrior

FLOOR_QUANTILE = 0.95
"""A/A comparisons stay below the floor this often (study, 6.1)."""

MIN_FOR_QUANTILE = 20
"""With fewer ratios a 95 % quantile is an extrapolation, so it is taken from the spread instead."""

NORMAL_95 = 1.96


def compute_noise_floor(aa_log_ratios: Sequence[float]) -> float | None:
    """What A/A comparisons of a series wander, as a ratio minus one; None without history."""
    ratios = np.abs(np.asarray(aa_log_ratios, dtype=float))
    if not ratios.size:
        return None
    if ratios.size >= MIN_FOR_QUANTILE:
        return math.expm1(float(np.quantile(ratios, FLOOR_QUANTILE)))
    return math.expm1(NORMAL_95 * math.sqrt(float((ratios**2).mean())))


def pooled_within_group_sd(groups: Sequence[Floats]) -> float | None:
    """A robust standard deviation inside groups that each have their own level; None without two values in one.

    From differences within the groups, as in Rousseeuw & Croux (1993): they need no centre, which a handful of values
    would place too close to themselves.
    """
    upper = [np.abs(np.subtract.outer(group, group))[np.triu_indices(len(group), 1)] for group in groups]
    differences = np.concatenate(upper) if upper else np.empty(0)
    return MAD_TO_SIGMA * float(np.median(differences)) / math.sqrt(2) if differences.size else None


def fit_noise_prior(variances: Sequence[float], df: float) -> NoisePrior | None:
    """What the variances of a group say about any one of them: empirical Bayes by moments (Smyth 2004, section 6).

    ``df`` belongs to each variance. None with fewer than three, where nothing can be learned.
    """
    from scipy.special import digamma, polygamma

    finite = np.asarray([v for v in variances if v > 0 and math.isfinite(v)])
    if len(finite) < 3:
        return None
    centred = np.log(finite) - digamma(df / 2) + math.log(df / 2)
    excess = float(centred.var(ddof=1)) - float(polygamma(1, df / 2))
    prior_df = 2 * _inverse_trigamma(excess) if excess > 0 else MAX_PRIOR_DF
    prior_df = min(prior_df, MAX_PRIOR_DF)
    sd = math.exp((float(centred.mean()) + float(digamma(prior_df / 2)) - math.log(prior_df / 2)) / 2)
    return NoisePrior(sd, prior_df)


MAX_PRIOR_DF = 20.0
"""Never believe a prior more than 20 observations: the next change may be the noisy one."""


def _inverse_trigamma(value: float) -> float:
    """Solve trigamma(x) = value by Newton's method (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-8 * x:
            break
    return x
