"""What a history can show: the noise of single commits, and the steps that hide in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfci.stats.location_estimates import MAD_TO_SIGMA
from perfci.stats.segment_boundary_test import critical_z_score
from perfci.stats.statistical_power import minimum_detectable_effect

COMMITS_AFTER_STEP = 10
"""Commits after a step that a reader waits for it to show."""

NORMAL_95 = 1.96

MIN_LEVELS = 8


@dataclass(frozen=True, slots=True)
class TrendSensitivity:
    """Relative sizes: ``noise`` is what 95 % of the commits stay within of their level.

    ``smallest_step`` is what shows within ``COMMITS_AFTER_STEP`` commits in four of five cases. Both are 0
    where values repeat exactly.
    """

    noise: float
    smallest_step: float


def estimate_trend_sensitivity(segments: Sequence[Sequence[float]], bar: float) -> TrendSensitivity | None:
    """Estimate it from the values on each level of a history; None where they are too few or not positive.

    The noise is the normal-consistent median absolute deviation of the log values from the median of their
    level (Rousseeuw and Croux 1993). A step shows when it passes the test of a segment boundary, and is at
    least ``bar``: see ``perfci.stats.segment_boundary_test``.
    """
    values = [value for segment in segments for value in segment]
    if len(values) < MIN_LEVELS or min(values) <= 0:
        return None
    logs = [np.log(np.asarray(segment, dtype=float)) for segment in segments if segment]
    residuals = np.concatenate([levels - np.median(levels) for levels in logs])
    sd = MAD_TO_SIGMA * float(np.median(np.abs(residuals)))
    if sd == 0:
        return TrendSensitivity(0.0, 0.0) if not residuals.any() else None
    points_before = len(logs[-1])
    error = sd * math.sqrt(1 / points_before + 1 / COMMITS_AFTER_STEP)
    shows = critical_z_score(len(values)) * error
    smallest = minimum_detectable_effect(error, len(values) - 1.0, max(math.log1p(bar), shows), 0.0)
    return TrendSensitivity(math.expm1(NORMAL_95 * sd), math.expm1(smallest))
