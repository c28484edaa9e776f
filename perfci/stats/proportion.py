"""Exact confidence interval of a proportion."""

from __future__ import annotations

from scipy.special import betaincinv

CONFIDENCE = 0.95
"""Default confidence of the interval."""


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
