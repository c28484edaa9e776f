"""Variance prior: what the noise of other series says of a series with few pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfci.stats.location_estimates import MAD_TO_SIGMA, Floats
from perfci.stats.location_shift import NoisePrior


def pooled_within_group_sd(groups: Sequence[Floats]) -> float | None:
    """Robust standard deviation within groups that each have their own level; None if no group has
    two values.

    1.4826 / sqrt(2) times the median of all pairwise distances within groups. Like the estimators
    of Rousseeuw & Croux (1993) it needs no centre, which few values would place too close to
    themselves.
    """
    upper = [np.abs(np.subtract.outer(group, group))[np.triu_indices(len(group), 1)] for group in groups]
    differences = np.concatenate(upper) if upper else np.empty(0)
    return MAD_TO_SIGMA * float(np.median(differences)) / math.sqrt(2) if differences.size else None


def fit_noise_prior(variances: Sequence[float], df: float) -> NoisePrior | None:
    """Empirical-Bayes prior of one variance from those of a group, by moments (Smyth 2004, section
    6).

    Each variance s^2 has ``df`` degrees of freedom d. With e = log s^2 - digamma(d / 2) + log(d /
    2), the prior degrees of freedom d0 solve trigamma(d0 / 2) = var(e) - trigamma(d / 2), and the
    prior variance is exp(mean(e) + digamma(d0 / 2) - log(d0 / 2)). None for fewer than three
    variances.
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
"""Cap of the prior's degrees of freedom: the next benchmark may be the noisy one."""


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
