"""Rank separation of two samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def auc(before: ArrayLike, after: ArrayLike) -> float:
    """P(after > before), ties half: the Mann-Whitney U as a share (Mann & Whitney 1947).

    1 or 0 is full separation, 0.5 none. Of all guards it is the strongest against series that hop between levels.
    """
    left, right = np.sort(np.asarray(before, dtype=float)), np.asarray(after, dtype=float)
    if not left.size or not right.size:
        return 0.5
    below = np.searchsorted(left, right, side="left")
    not_above = np.searchsorted(left, right, side="right")
    return float((below + not_above).mean() / (2 * left.size))


def separation(before: ArrayLike, after: ArrayLike) -> float:
    """The same without a direction: 0.5 none, 1 full."""
    share = auc(before, after)
    return max(share, 1 - share)
