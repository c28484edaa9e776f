"""Random-effects mean: the common shift of many benchmarks and the spread of their true shifts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit


@dataclass(frozen=True, slots=True)
class PooledShift:
    """Mean log shift with its standard error; ``between_sd`` is the spread of the true shifts."""

    centre: float
    error: float
    df: int
    between_sd: float

    def bounds(self, tail: float = 0.025) -> tuple[float, float]:
        """Interval that leaves ``tail`` out on either side."""
        half = float(-stdtrit(self.df, tail)) * self.error
        return self.centre - half, self.centre + half


def pool_shifts(centres: Sequence[float], errors: Sequence[float]) -> PooledShift:
    """Random-effects mean of log shifts x with standard errors e, at least two of them, all e
    finite and positive.

    With tau^2 the variance between the true shifts (DerSimonian & Laird 1986), w = 1 / (e^2 +
    tau^2) and m = sum(w x) / sum(w), the standard error is that of Hartung & Knapp (2001)

        sqrt(max(1, q) / sum(w)),    q = sum(w (x - m)^2) / (k - 1)

    with k - 1 degrees of freedom. The lower limit 1 for q is the modification for few shifts of
    unequal errors (Roever, Knapp & Friede 2015).
    """
    shifts, own = np.asarray(centres, dtype=float), np.asarray(errors, dtype=float) ** 2
    between = _between_variance(shifts, own)
    weights = 1 / (own + between)
    centre = float(np.average(shifts, weights=weights))
    df = len(shifts) - 1
    seen = float((weights * (shifts - centre) ** 2).sum()) / df
    return PooledShift(centre, math.sqrt(max(1.0, seen) / float(weights.sum())), df, math.sqrt(between))


def _between_variance(shifts: np.ndarray, variances: np.ndarray) -> float:
    """Variance between the true shifts by moments; 0 where their own errors explain the spread."""
    weights = 1 / variances
    common = float(np.average(shifts, weights=weights))
    excess = float((weights * (shifts - common) ** 2).sum()) - (len(shifts) - 1)
    return max(0.0, excess / float(weights.sum() - (weights**2).sum() / weights.sum()))
