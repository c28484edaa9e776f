"""Binomial statistics: the sign test, the exact interval of a share, and the exact test of two shares."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import bdtrc, betaincinv

SIGN_TEST_LEVEL = 0.05
"""One-sided level of the sign test."""


def passes_sign_test(centres: Sequence[float]) -> bool:
    """Whether more shifts lie on one side of zero than chance puts there: one-sided sign test
    (Dixon & Mood 1946).

    Zeros count for neither side.
    """
    up, down = (sum(sign * centre > 0 for centre in centres) for sign in (1, -1))
    return bool(bdtrc(max(up, down) - 1, up + down, 0.5) <= SIGN_TEST_LEVEL)


def clopper_pearson_interval(hits: int, trials: int) -> tuple[float, float]:
    """Exact 95 % interval of a share of independent trials (Clopper & Pearson 1934).

    Quantiles of the beta distribution: B(0.025; h, n - h + 1) and B(0.975; h + 1, n - h) for h
    hits in n trials. 0 hits give a lower end of 0, n hits an upper end of 1, no trials the whole
    range.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"expected between 0 and {trials} hits, found {hits}")
    low = float(betaincinv(hits, trials - hits + 1, 0.025)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 0.975)) if hits < trials else 1.0
    return low, high


def fisher_upper_tail(hits: tuple[int, int], reference: tuple[int, int]) -> float:
    """One-sided p-value that a share is no larger than a reference: exact test of Fisher (1922).

    Both are (hits, trials), h of n and g of m. With the h + g hits dealt out at random to n + m
    trials, the probability of h or more among the n: sum over k >= h of C(n, k) C(m, h + g - k) /
    C(n + m, h + g). No trials or no hits give 1.
    """
    (count, trials), (reference_count, reference_trials) = hits, reference
    total = count + reference_count
    ways = sum(
        math.comb(trials, k) * math.comb(reference_trials, total - k)
        for k in range(count, min(trials, total) + 1)
    )
    return ways / math.comb(trials + reference_trials, total)
