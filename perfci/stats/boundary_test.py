"""A line before the judge: how well each of its boundaries is proven by the points on both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from perfci.stats.boundary_statistics import (
    MEDIAN_ERROR_RATIO,
    SHORT_SIDE_POINTS,
    BoundaryStatistics,
    compute_boundary_statistics,
)
from perfci.stats.location import Floats
from perfci.stats.mode_switching import SWITCH_WINDOW, ModeSwitch, classify_mode_switch

REJECTED_STRENGTH = 0.5
"""The proof of a boundary that is ruled out: it goes before those that nearly pass."""

MIN_LEVEL_WINDOW, MAX_SIDE_POINTS = 15, 40
"""A boundary is judged on this many points either side: what lies further back is another time."""

MAX_SPIKE_POINTS = 3
"""A move that is told after three points and taken back by the fourth went away (study, 6.2): it was a spike."""

BoundarySpan = tuple[int, int, int]
"""The first point that speaks for a boundary, the boundary, and the end of the points that speak."""


class RemovedBoundary(NamedTuple):
    """A boundary that was dropped, how well it was proven, and the least proof of those that stayed, if it was last."""

    boundary: int
    strength: float
    next_strength: float


@dataclass(slots=True)
class BoundaryTestCache:
    """What was found out about boundaries of one line at one bar, so that it is not found out again.

    Evidence and hops depend on the points at their places alone, and hold as long as those do. Of what was
    ``proposed`` of so many points, some were ``gone``, in this order, before the rest stood.
    """

    statistics: dict[BoundarySpan, BoundaryStatistics] = field(default_factory=dict)
    mode_switches: dict[BoundarySpan, ModeSwitch] = field(default_factory=dict)
    point_count: int = 0
    candidates: Sequence[int] = ()
    removed: list[RemovedBoundary] = field(default_factory=list)


@dataclass(frozen=True)
class BoundaryTest:
    """A line: its logs, the sums of the same with spikes pulled in, its noise and the user's bar.

    What is ``known`` holds for as many first points as are the ``same``.
    """

    logs: Floats
    clipped_sums: Floats
    sigma: float
    bar: float
    previous: BoundaryTestCache = field(default_factory=BoundaryTestCache)
    unchanged_points: int = 0
    cache: BoundaryTestCache = field(default_factory=BoundaryTestCache)

    @cached_property
    def clipped(self) -> Floats:
        """In units of the noise, spikes pulled in."""
        return self.clipped_sums[1:] - self.clipped_sums[:-1]

    @cached_property
    def min_size(self) -> float:
        """The bar as a log ratio."""
        return math.log1p(self.bar)

    @cached_property
    def reach(self) -> int:
        """How many points either side tell the size: as few as the noise allows, for levels also creep.

        Enough that the standard error of the difference of two medians is a tenth of the bar.
        """
        if not self.bar:
            return MAX_SIDE_POINTS
        needed = 2 * (10 * MEDIAN_ERROR_RATIO * self.sigma / self.min_size) ** 2
        return int(min(max(needed, MIN_LEVEL_WINDOW), MAX_SIDE_POINTS))

    def edges(self, boundaries: Sequence[int]) -> list[int]:
        """Boundaries between the two ends of the line."""
        return [0, *boundaries, len(self.logs)]

    def compute_strength(self, edges: Sequence[int], k: int, error_inflation: float = 1.0) -> float:
        """How well boundary ``k`` is proven between its neighbours, where errors are so much wider; 1 is enough."""
        span = start, at, end = boundary_span(edges, k)
        if start == 0 and at < SHORT_SIDE_POINTS:
            return REJECTED_STRENGTH
        statistics = self.get_statistics(span)
        if (
            end - at <= MAX_SPIKE_POINTS
            and k + 2 < len(edges)
            and statistics.size * self.get_statistics(boundary_span(edges, k + 1)).size < 0
        ):
            return REJECTED_STRENGTH
        sigmas = statistics.z_score / (error_inflation * statistics.required_z_score)
        strength = sigmas if sigmas < statistics.strength else statistics.strength
        return REJECTED_STRENGTH if strength >= 1 and self.bar and self.is_mode_switch(span) else strength

    def get_statistics(self, span: BoundarySpan) -> BoundaryStatistics:
        statistics = self.cache.statistics.get(span)
        if statistics is None:
            start, at, end = span
            statistics = self.previous.statistics.get(span) if end <= self.unchanged_points else None
            statistics = statistics or compute_boundary_statistics(
                self.logs[start:at], self.logs[at:end], self.reach, self.sigma, self.min_size
            )
            self.cache.statistics[span] = statistics
        return statistics

    def is_mode_switch(self, span: BoundarySpan) -> bool:
        switch = self.cache.mode_switches.get(span)
        if switch is None:
            switch = self.previous.mode_switches.get(span)
            last = min(len(self.logs), span[1] + SWITCH_WINDOW)
            if (
                switch is None
                or max(span[2], switch.end) > self.unchanged_points
                or not (switch.is_final or switch.end == last)
            ):
                sides = self.get_statistics(span)
                switch = classify_mode_switch(self.logs[:last], span[1], sides.before, sides.after)
            self.cache.mode_switches[span] = switch
        return switch.is_switch


def boundary_span(edges: Sequence[int], k: int) -> BoundarySpan:
    """Where to look for what is said of the boundary ``k``; ``max`` and ``min`` would take three times as long."""
    start, at, end = edges[k - 1], edges[k], edges[k + 1]
    return (
        start if start > at - MAX_SIDE_POINTS else at - MAX_SIDE_POINTS,
        at,
        end if end < at + MAX_SIDE_POINTS else at + MAX_SIDE_POINTS,
    )
