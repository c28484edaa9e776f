"""Many comparisons at once: false-discovery rate, pooled shift of many benchmarks, share of false alarms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, stdtrit

DEFAULT_FDR = 0.05
"""Share of false flags tolerated among all flags of a group, the usual 5 %."""

SIGN_TEST_LEVEL = 0.05
"""One-sided level of the sign test."""

CONFIDENCE = 0.95
"""Default confidence of an interval."""


def benjamini_hochberg(p_values: Sequence[float], rate: float = DEFAULT_FDR) -> list[bool]:
    """Tell for each p-value whether it is rejected at this false-discovery rate (Benjamini &
    Hochberg 1995).

    Step-up: with the sorted p(1) <= ... <= p(m), reject the k smallest, k the largest index with
    p(k) <= rate k / m. Result in the order of the input; empty for no p-values.
    """
    p = np.asarray(p_values, dtype=float)
    if not p.size:
        return []
    order = np.argsort(p, kind="stable")
    passing = np.flatnonzero(p[order] <= rate * np.arange(1, p.size + 1) / p.size)
    flags = np.zeros(p.size, dtype=bool)
    if passing.size:
        flags[order[: passing[-1] + 1]] = True
    return flags.tolist()


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


def is_one_sided(centres: Sequence[float]) -> bool:
    """Whether more shifts lie on one side of zero than chance puts there: one-sided sign test
    (Dixon & Mood 1946).

    Zeros count for neither side.
    """
    up, down = (sum(sign * centre > 0 for centre in centres) for sign in (1, -1))
    count = up + down
    ways = sum(math.comb(count, k) for k in range(max(up, down), count + 1))
    return bool(ways <= SIGN_TEST_LEVEL * 2**count)


def clopper_pearson_interval(hits: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Exact interval of a share of independent trials (Clopper & Pearson 1934).

    Quantiles of the beta distribution: B(tail; h, n - h + 1) and B(1 - tail; h + 1, n - h) for h
    hits in n trials. 0 hits give a lower end of 0, n hits an upper end of 1, no trials the whole
    range.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"expected between 0 and {trials} hits, found {hits}")
    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return low, high
