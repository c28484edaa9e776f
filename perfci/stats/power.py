"""What a comparison could have seen, and how many more pairs would settle it."""

from __future__ import annotations

import math

from scipy.special import stdtrit

from perfci.stats.interval import Shift

POWER = 0.8
"""The usual meaning of "could have seen" (Cohen 1988)."""

MAX_PAIRS_TO_DECIDE = 200
"""Beyond this nobody waits: the answer is that pairs would not settle it."""


def smallest_visible(error: float, df: float, bar: float, null: float) -> float:
    """Smallest log shift a comparison of this error convicts with 80 % power.

    Convicting needs the estimate beyond ``bar`` and the whole 95 % interval beyond ``null``; both are met.
    """
    if df <= 0 or not math.isfinite(error):
        return math.inf
    luck = float(stdtrit(df, POWER)) * error
    return max(bar + luck, null + float(stdtrit(df, 0.975)) * error + luck)


def pairs_to_decide(found: Shift, room: float) -> int | None:
    """How many further pairs would probably narrow half the interval down to ``room``; None where none would."""
    if found.df <= 0 or not math.isfinite(found.error) or room <= 0:
        return None
    sd, df_per_pair = found.error * math.sqrt(found.pairs), max(found.df / found.pairs, 0.5)
    for pairs in range(found.pairs + 1, MAX_PAIRS_TO_DECIDE + 1):
        if float(stdtrit(df_per_pair * pairs, 0.975)) * sd / math.sqrt(pairs) < room:
            return pairs - found.pairs
    return None
