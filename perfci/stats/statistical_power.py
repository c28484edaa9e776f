"""Power of a comparison: the smallest effect it could detect, and the pairs that would decide it."""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri, stdtrit

from perfci.stats.location_shift import Shift

POWER = 0.8
"""Conventional power of a test (Cohen 1988)."""

MAX_PAIRS_TO_DECIDE = 200
"""Largest number of pairs worth suggesting; beyond it more pairs count as not deciding."""


def minimum_detectable_effect(error: float, df: float, bar: float, null: float, tail: float = 0.025) -> float:
    """Smallest log shift that a comparison with this standard error confirms with 80 % power.

    A move needs the estimate beyond ``bar`` and the whole interval beyond ``null``:

        max(bar + luck, null + t(1 - tail) error + luck),    luck = t(0.8) error

    ``tail`` is what the interval leaves out on either side. Infinite without degrees of freedom.
    """
    if df <= 0 or not math.isfinite(error):
        return math.inf
    luck = float(stdtrit(df, POWER)) * error
    return max(bar + luck, null - float(stdtrit(df, tail)) * error + luck)


def estimate_pairs_to_decide(shift: Shift, max_half_width: float) -> int | None:
    """Further pairs that would probably narrow half the interval to ``max_half_width``; None where
    none would, as with a clock too coarse for it.

    What the modes leave open is assumed to shrink like the standard error.
    """
    if shift.df <= 0 or not math.isfinite(shift.error) or max_half_width <= 0:
        return None
    error = shift.half_width() / float(stdtrit(shift.df, 0.975))
    variance, df_per_pair = error**2 - shift.resolution_error**2, max(shift.df / shift.pairs, 0.5)
    for pairs in range(shift.pairs + 1, MAX_PAIRS_TO_DECIDE + 1):
        left = math.hypot(math.sqrt(variance * shift.pairs / pairs), shift.resolution_error)
        if float(stdtrit(df_per_pair * pairs, 0.975)) * left < max_half_width:
            return pairs - shift.pairs
    return None


def estimate_pairs_to_p_value(pairs: int, p_value: float, target_p_value: float) -> int | None:
    """Further pairs that would probably lower a two-sided p-value to the target; None where none
    would.

    At a constant estimate the normal deviate grows with the square root of the pairs.
    """
    deviate, needed = -float(ndtri(p_value / 2)), -float(ndtri(target_p_value / 2))
    if pairs <= 0 or deviate <= 0 or needed <= 0:
        return None
    more = max(math.ceil(pairs * (needed / deviate) ** 2) - pairs, 1)
    return more if pairs + more <= MAX_PAIRS_TO_DECIDE else None


def predictive_probability_between(shift: Shift, pairs: int, low: float, high: float) -> float:
    """Probability that the estimate from ``pairs`` pairs will lie between ``low`` and ``high``.

    Predictive probability with a flat prior on the true shift (Spiegelhalter, Freedman & Blackburn
    1986): normal around the present estimate with standard deviation error sqrt(1 - n / pairs), n
    the present pairs.
    """
    if high <= low:
        return 0.0
    left = shift.error * math.sqrt(max(1 - shift.pairs / pairs, 1e-12))
    return float(ndtr((high - shift.centre) / left) - ndtr((low - shift.centre) / left))
