"""Multiple comparisons: which of many p-values are rejected at a false-discovery rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DEFAULT_FDR = 0.05
"""Share of false flags tolerated among all flags of a group, the usual 5 %."""


def benjamini_hochberg(p_values: Sequence[float], rate: float = DEFAULT_FDR) -> list[bool]:
    """Return for each p-value whether it is rejected at this false-discovery rate (Benjamini &
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
