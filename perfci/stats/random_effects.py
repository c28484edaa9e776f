"""One answer from many: what all benchmarks of a change have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

SIGN_TEST_LEVEL = 0.05
"""So many shifts on one side come about by chance in fewer than one of twenty cases: the usual level."""


@dataclass(frozen=True, slots=True)
class PooledShift:
    """The mean of many shifts with its standard error; ``between`` is how far the true shifts lie apart."""

    centre: float
    error: float
    df: int
    between_sd: float

    def bounds(self, tail: float = 0.025) -> tuple[float, float]:
        half = float(-stdtrit(self.df, tail)) * self.error
        return self.centre - half, self.centre + half


def pool_shifts(centres: Sequence[float], errors: Sequence[float]) -> PooledShift:
    """Random effects: the shifts differ between benchmarks, and their mean is asked for.

    The spread between them is that of DerSimonian & Laird (1986); the error of the mean is that of Hartung & Knapp
    (2001), Student's t with one degree of freedom less than there are shifts. It is never smaller than the shifts'
    own errors allow (the modification for few shifts of unequal errors, after Roever, Knapp & Friede 2015), so a
    handful of shifts that happen to agree does not make certainty. At least two shifts with finite errors above zero.
    """
    shifts, own = np.asarray(centres, dtype=float), np.asarray(errors, dtype=float) ** 2
    between = _between_variance(shifts, own)
    weights = 1 / (own + between)
    centre = float(np.average(shifts, weights=weights))
    df = len(shifts) - 1
    seen = float((weights * (shifts - centre) ** 2).sum()) / df
    return PooledShift(centre, math.sqrt(max(1.0, seen) / float(weights.sum())), df, math.sqrt(between))


def is_one_sided(centres: Sequence[float]) -> bool:
    """Whether more shifts lie on one side of zero than chance would put there: the sign test of Dixon & Mood (1946).

    One-sided, since the mean already says which side; zeros speak for neither.
    """
    up, down = (sum(sign * centre > 0 for centre in centres) for sign in (1, -1))
    count = up + down
    ways = sum(math.comb(count, k) for k in range(max(up, down), count + 1))
    return bool(ways <= SIGN_TEST_LEVEL * 2**count)


def _between_variance(shifts: np.ndarray, variances: np.ndarray) -> float:
    """The variance between the true shifts, by moments; 0 where their own errors explain what is seen."""
    weights = 1 / variances
    common = float(np.average(shifts, weights=weights))
    excess = float((weights * (shifts - common) ** 2).sum()) - (len(shifts) - 1)
    return max(0.0, excess / float(weights.sum() - (weights**2).sum() / weights.sum()))
