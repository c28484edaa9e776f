"""Evidence for a change point from the points around it, and the uncertainty of its position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perfci.model import Environment
from perfci.stats.location import MAD_TO_SIGMA, Floats
from perfci.stats.location_shift import estimate_unpaired_shift
from perfci.stats.noise_model import ar1_inflation
from perfci.stats.segmentation import MIN_SIGMA

MAX_SIDE_POINTS = 15
"""Points either side that estimate a step; what lies further back belongs to another time."""

MIN_LEVEL_POINTS = 3
"""Shortest level that may page; one or two points are a spike (docs/design/statistics.md)."""

BAI_FACTOR = 11.0
"""With 95 % the true position lies within 11 (sigma / step)^2 points of the estimated one (Bai
1997)."""

MIN_P_VALUE = 2.0**-52
"""Smallest p-value used: float rounding makes anything smaller meaningless."""


@dataclass(frozen=True, slots=True)
class LevelPoint:
    """One measured commit of a series: its level, its environment, and whether it repeats exactly."""

    sha: str
    level: float
    environment: Environment = field(default_factory=Environment)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """A step between two neighbouring points of a series.

    ``index`` is the first point of the new level, ``points_after`` how many points it has,
    ``sigmas`` the size in units of the noise of one point.
    """

    index: int
    points_after: int
    sigmas: float
    p_value: float
    exact: bool

    @property
    def position_uncertainty(self) -> int:
        """Points by which the step may have come earlier or later."""
        return 0 if self.exact else int(BAI_FACTOR / self.sigmas**2) if self.sigmas else MAX_SIDE_POINTS

    @property
    def log_evidence(self) -> float:
        """-log p."""
        return -math.log(max(self.p_value, MIN_P_VALUE))


def estimate_step(
    points: Sequence[LevelPoint], commit: str, other_steps: Sequence[str] = ()
) -> StepEstimate | None:
    """Estimate the step at ``commit`` from the points up to the neighbouring ``other_steps``; None
    where it is not seen."""
    positions = {point.sha: index for index, point in enumerate(points)}
    if commit not in positions or not positions[commit]:
        return None
    index = positions[commit]
    edges = sorted(positions[other] for other in other_steps if other in positions and other != commit)
    first = max([0, index - MAX_SIDE_POINTS, *(edge for edge in edges if edge < index)])
    end = min([len(points), *(edge for edge in edges if edge > index)])
    before, after = points[first:index], points[index : min(end, index + MAX_SIDE_POINTS)]
    if all(point.exact for point in (*before, *after)):
        return StepEstimate(index, end - index, math.inf, 0.0, exact=True)
    if any(point.level <= 0 for point in (*before, *after)):
        return StepEstimate(index, end - index, 0.0, 1.0, exact=False)
    sides = [np.log([point.level for point in side]) for side in (before, after)]
    size = abs(float(np.median(sides[1]) - np.median(sides[0])))
    return StepEstimate(index, end - index, size / _point_noise(sides), _shift_p_value(sides), exact=False)


def _point_noise(sides: Sequence[Floats]) -> float:
    """Noise of one point around the median of its own side, as a robust sigma."""
    residuals = np.concatenate([side - np.median(side) for side in sides])
    return max(MAD_TO_SIGMA * float(np.median(np.abs(residuals))), MIN_SIGMA)


def _shift_p_value(sides: Sequence[Floats]) -> float:
    """Two-sided p-value of no shift, the error widened by sqrt((1 + r) / (1 - r)) for
    autocorrelation r."""
    before, after = sides
    shift = estimate_unpaired_shift(before, after)
    if shift.df <= 0 or not math.isfinite(shift.error):
        return 1.0
    error = shift.error * math.sqrt(_estimate_variance_inflation(sides))
    scaled = type(shift)(shift.centre, error, shift.df, shift.pairs, shift.method)
    return scaled.p_value()


def _estimate_variance_inflation(sides: Sequence[Floats]) -> float:
    """(1 + r) / (1 - r) with the lag-1 autocorrelation of the residuals, r between 0 and 0.9."""
    residuals = [side - side.mean() for side in sides if len(side) > 2]
    squares = sum(float((residual**2).sum()) for residual in residuals)
    if squares <= 0:
        return 1.0
    r = sum(float((residual[1:] * residual[:-1]).sum()) for residual in residuals) / squares
    r = min(max(r, 0.0), 0.9)
    return ar1_inflation(r)
