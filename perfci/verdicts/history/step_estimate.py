"""What the measured points around a change point say: how sure the step is, and how well its place is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perfci.model import Environment
from perfci.stats.location import Floats
from perfci.stats.location_shift import estimate_unpaired_shift
from perfci.stats.preprocessing import MIN_SIGMA

MAX_SIDE_POINTS = 15
"""So many points either side speak for a step: what lies further back is another time (as in segmentation)."""

MIN_LEVEL_POINTS = 3
"""A level is at least three points long, one or two are a spike (study of detection, 6.2): fewer never page."""

BAI_FACTOR = 11.0
"""Bai (1997): with 95 % the true place lies within 11 (sigma / step) squared points of the estimated one."""

MIN_P_VALUE = 2.0**-52
"""A p-value below what a float can tell from none is no better evidence than this."""


@dataclass(frozen=True, slots=True)
class LevelPoint:
    """One measured commit of a series: its level, what was observed beside it, and whether it repeats exactly."""

    sha: str
    level: float
    environment: Environment = field(default_factory=Environment)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """A step between two neighbouring points of a series.

    ``sigmas`` is the step in units of the noise of one point, ``points`` how many of the new level were measured,
    ``at`` the place of the first of them among the points seen.
    """

    index: int
    points_after: int
    sigmas: float
    p_value: float
    exact: bool

    @property
    def position_uncertainty(self) -> int:
        """How many points earlier or later the step may have come as well."""
        return 0 if self.exact else int(BAI_FACTOR / self.sigmas**2) if self.sigmas else MAX_SIDE_POINTS

    @property
    def log_evidence(self) -> float:
        """The evidence in natural logarithms."""
        return -math.log(max(self.p_value, MIN_P_VALUE))


def estimate_step(
    points: Sequence[LevelPoint], commit: str, other_steps: Sequence[str] = ()
) -> StepEstimate | None:
    """The step at ``commit``, judged on the points up to the next of the ``other`` steps; None where it is not seen."""
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
    """The noise of one point, around the middle of its own side."""
    residuals = np.concatenate([side - np.median(side) for side in sides])
    return max(1.4826 * float(np.median(np.abs(residuals))), MIN_SIGMA)


def _shift_p_value(sides: Sequence[Floats]) -> float:
    """Two-sided, of no shift; neighbours that resemble each other count less, by (1 + r) / (1 - r) of their error."""
    before, after = sides
    shift = estimate_unpaired_shift(before, after)
    if shift.df <= 0 or not math.isfinite(shift.error):
        return 1.0
    error = shift.error * math.sqrt(_ar1_inflation(sides))
    scaled = type(shift)(shift.centre, error, shift.df, shift.pairs, shift.method)
    return min(1.0, 2 * min(scaled.p_above(0.0), scaled.p_below(0.0)))


def _ar1_inflation(sides: Sequence[Floats]) -> float:
    """What a first-order autocorrelation does to the variance of a mean."""
    residuals = [side - side.mean() for side in sides if len(side) > 2]
    squares = sum(float((residual**2).sum()) for residual in residuals)
    if squares <= 0:
        return 1.0
    r = sum(float((residual[1:] * residual[:-1]).sum()) for residual in residuals) / squares
    r = min(max(r, 0.0), 0.9)
    return (1 + r) / (1 - r)
