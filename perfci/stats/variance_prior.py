"""Variance prior: what the noise of other series says of a series with few pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import fdtri

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
    """Empirical-Bayes prior of one variance from those of a group (Smyth 2004), fitted to quartiles.

    A variance s^2 with ``df`` degrees of freedom d is s0^2 times an F(d, d0) variable. The prior degrees
    of freedom d0 are the most that explain the distance of the quartiles of log s^2, and s0^2 is the
    median of s^2 over that of F. Unlike moments (Smyth 2004, section 6), quartiles do not move with
    one benchmark that has nothing to do with the others. None for fewer than three variances.
    """
    finite = np.asarray([variance for variance in variances if variance > 0 and math.isfinite(variance)])
    if len(finite) < 3:
        return None
    lower, middle, upper = np.quantile(np.log(finite), (0.25, 0.5, 0.75))
    distances = np.log(fdtri(df, PRIOR_DFS, 0.75) / fdtri(df, PRIOR_DFS, 0.25))
    prior_df = float(PRIOR_DFS[distances >= upper - lower].max(initial=PRIOR_DFS[0]))
    return NoisePrior(math.sqrt(math.exp(middle) / float(fdtri(df, prior_df, 0.5))), prior_df)


MAX_PRIOR_DF = 20.0
"""Cap of the prior's degrees of freedom: the next benchmark may be the noisy one."""

PRIOR_DFS = np.geomspace(0.5, MAX_PRIOR_DF, 64)
"""Degrees of freedom tried; each is 6 % more than the one before."""
