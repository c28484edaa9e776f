"""How often something happens, from how often it was seen to."""

from __future__ import annotations

from scipy.special import betaincinv

CONFIDENCE = 0.95


def clopper_pearson_interval(hits: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a share of independent trials: Clopper & Pearson (1934).

    Both ends leave half the error outside, by quantiles of the beta distribution. Nothing tried leaves everything
    possible; nothing seen leaves zero as the lower end, and about three in ``trials`` as the upper one.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"expected between 0 and {trials} hits, found {hits}")
    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return low, high
