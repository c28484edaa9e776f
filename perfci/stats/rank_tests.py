"""Rank separation of two samples."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike


def auc(before: ArrayLike, after: ArrayLike) -> float:
    """P(after > before) with ties counted half: the Mann-Whitney U as a share (Mann & Whitney
    1947).

    0 or 1 is full separation, 0.5 none, also for an empty sample. ``before`` must be sorted. It is
    the strongest guard against series that switch between modes.
    """
    left, right = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if not left.size or not right.size:
        return 0.5
    below_and_not_above = left.searchsorted(right, "left") + left.searchsorted(right, "right")
    return int(below_and_not_above.sum()) / (2 * left.size * right.size)


def rank_separation(before: ArrayLike, after: ArrayLike) -> float:
    """Separation whatever its direction: 0.5 none, 1 full."""
    share = auc(before, after)
    return max(share, 1 - share)


@cache
def critical_separation(before: int, after: int, level: float) -> float:
    """Smallest one-sided separation that samples of these sizes reach by chance at most at this
    level.

    From the exact distribution of U, whose generating function is a Gaussian binomial coefficient
    (Mann & Whitney 1947). More than 1 where even full separation is likelier than ``level``.
    """
    ways = np.zeros(before * after + 1)
    ways[0] = 1
    for part in range(1, before + 1):
        ways[part + after :] -= ways[: -part - after].copy() if part + after < len(ways) else 0
        for first in range(part):
            ways[first::part] = np.cumsum(ways[first::part])
    missed = int(np.searchsorted(np.cumsum(ways) / math.comb(before + after, before), level, side="right"))
    return 1 - (missed - 1) / (before * after)
