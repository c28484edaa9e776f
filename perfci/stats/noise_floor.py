"""Noise floor: how far comparisons of identical inputs (A/A runs) differ."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

FLOOR_QUANTILE = 0.95
"""Share of A/A comparisons that stay below the floor."""

MIN_FOR_QUANTILE = 20
"""With fewer ratios a 95 % quantile would be an extrapolation, so the floor is taken from their
spread."""

NORMAL_95 = 1.96
"""97.5 % quantile of the normal distribution, for two-sided 95 %."""


def compute_noise_floor(aa_log_ratios: Sequence[float]) -> float | None:
    """Noise floor of a series from its A/A log ratios, as a ratio minus one; None without history.

    The 95 % quantile of |ratio|, or 1.96 sqrt(mean ratio^2) for fewer than 20 ratios.
    """
    ratios = np.abs(np.asarray(aa_log_ratios, dtype=float))
    if not ratios.size:
        return None
    if ratios.size >= MIN_FOR_QUANTILE:
        return math.expm1(float(np.quantile(ratios, FLOOR_QUANTILE)))
    return math.expm1(NORMAL_95 * math.sqrt(float((ratios**2).mean())))
