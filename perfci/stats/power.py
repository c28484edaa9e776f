"""What a comparison could have seen, and how many more pairs would settle it."""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri, stdtrit

from perfci.stats.location_shift import Shift

POWER = 0.8
"""The usual meaning of "could have seen" (Cohen 1988)."""

SHRINKAGE_IN_ERRORS = math.sqrt((math.pi / 3 - 1) * 2 / math.pi) / 2
"""How many errors the estimate of two sides claims less than their mean does, on average: 0.09.

It is the lesser of the mean and the median of all differences. Their difference has the variance by which the latter is
less efficient on normal data, pi / 3 - 1 of the mean's (Hodges & Lehmann 1963); half of its mean size is lost.
"""

MAX_PAIRS_TO_DECIDE = 200
"""Beyond this nobody waits: the answer is that pairs would not settle it."""


def minimum_detectable_effect(error: float, df: float, bar: float, null: float, tail: float = 0.025) -> float:
    """Smallest log shift a comparison of this error convicts with 80 % power.

    Convicting needs the estimate beyond ``bar`` and the whole interval beyond ``null``; both are met. The interval
    leaves out ``tail`` on either side: 2.5 % where it is looked at once, less at a look of many.
    """
    if df <= 0 or not math.isfinite(error):
        return math.inf
    luck = (float(stdtrit(df, POWER)) + SHRINKAGE_IN_ERRORS) * error
    return max(bar + luck, null - float(stdtrit(df, tail)) * error + luck)


def estimate_pairs_to_decide(shift: Shift, max_half_width: float) -> int | None:
    """How many further pairs would probably narrow half the interval down to ``room``; None where none would.

    What the interval holds beyond its error, for other readings of the pairs, is taken to shrink like the error.
    """
    if shift.df <= 0 or not math.isfinite(shift.error) or max_half_width <= 0:
        return None
    error = shift.half_width() / float(stdtrit(shift.df, 0.975))
    sd, df_per_pair = error * math.sqrt(shift.pairs), max(shift.df / shift.pairs, 0.5)
    for pairs in range(shift.pairs + 1, MAX_PAIRS_TO_DECIDE + 1):
        if float(stdtrit(df_per_pair * pairs, 0.975)) * sd / math.sqrt(pairs) < max_half_width:
            return pairs - shift.pairs
    return None


def estimate_pairs_to_p_value(pairs: int, p_value: float, target_p_value: float) -> int | None:
    """How many further pairs would probably bring a two-sided p-value down to ``wanted``; None where none would.

    At the same estimate a normal deviate grows with the square root of the pairs.
    """
    deviate, needed = -float(ndtri(p_value / 2)), -float(ndtri(target_p_value / 2))
    if pairs <= 0 or deviate <= 0 or needed <= 0:
        return None
    more = max(math.ceil(pairs * (needed / deviate) ** 2) - pairs, 1)
    return more if pairs + more <= MAX_PAIRS_TO_DECIDE else None


def predictive_probability(shift: Shift, pairs: int, low: float, high: float) -> float:
    """How likely the estimate of all ``pairs`` will lie between ``low`` and ``high``, from the pairs there are.

    The predictive probability of Spiegelhalter, Freedman & Blackburn (1986): of a true shift nothing is known but what
    these pairs say.
    """
    if high <= low:
        return 0.0
    left = shift.error * math.sqrt(max(1 - shift.pairs / pairs, 1e-12))
    return float(ndtr((high - shift.centre) / left) - ndtr((low - shift.centre) / left))
