"""Tests of single boundaries of one series, with a cache that survives appended points."""

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
"""Strength of a boundary that a rule excludes: it is removed before those that nearly pass."""

MIN_LEVEL_WINDOW, MAX_SIDE_POINTS = 15, 40
"""Fewest and most points either side that estimate the size of a step; what lies further back
belongs to another time."""

MAX_SPIKE_POINTS = 3
"""A level of up to three points that the next boundary takes back is a spike, no level
(docs/design/statistics.md)."""

BoundarySpan = tuple[int, int, int]
"""Indices (start, boundary, end): the points start..boundary-1 against boundary..end-1."""


class RemovedBoundary(NamedTuple):
    """A removed boundary, its strength, and, if it was the last, the smallest strength that stayed."""

    boundary: int
    strength: float
    next_strength: float


@dataclass(slots=True)
class BoundaryTestCache:
    """Results for the boundaries of one series at one bar, reusable while their points stay the
    same.

    Statistics and mode switches depend on the values inside their span only. ``removed`` lists the
    boundaries removed from ``candidates`` when the series had ``point_count`` points, in order.
    """

    statistics: dict[BoundarySpan, BoundaryStatistics] = field(default_factory=dict)
    mode_switches: dict[BoundarySpan, ModeSwitch] = field(default_factory=dict)
    point_count: int = 0
    candidates: Sequence[int] = ()
    removed: list[RemovedBoundary] = field(default_factory=list)


@dataclass(frozen=True)
class BoundaryTest:
    """One series under test: log values of shape (n,), clipped sums of shape (n + 1,), noise and
    bar.

    ``previous`` holds results that are valid for the first ``unchanged_points`` points; ``cache``
    collects those of this run.
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
        """Values of shape (n,) in units of the noise, spikes clipped."""
        return self.clipped_sums[1:] - self.clipped_sums[:-1]

    @cached_property
    def min_size(self) -> float:
        """The bar as a log ratio."""
        return math.log1p(self.bar)

    @cached_property
    def reach(self) -> int:
        """How many points either side estimate the size: as few as the noise allows, because levels
        creep.

        Enough for the standard error of the difference of two medians to be a tenth of the bar: 2
        (10 * 1.2533 sigma / log(1 + bar))^2 points, between 15 and 40.
        """
        if not self.bar:
            return MAX_SIDE_POINTS
        needed = 2 * (10 * MEDIAN_ERROR_RATIO * self.sigma / self.min_size) ** 2
        return int(min(max(needed, MIN_LEVEL_WINDOW), MAX_SIDE_POINTS))

    def edges(self, boundaries: Sequence[int]) -> list[int]:
        """The boundaries between 0 and n."""
        return [0, *boundaries, len(self.logs)]

    def compute_strength(self, edges: Sequence[int], k: int, error_inflation: float = 1.0) -> float:
        """Strength of boundary ``k`` between its neighbours, standard errors multiplied by
        ``error_inflation``.

        The smallest of size, rank separation and z score, each over what it must be; 1 passes.
        Short first levels, spikes and mode switches get ``REJECTED_STRENGTH``.
        """
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
        # the mode test is the most expensive one, so only what passes all others gets it;
        # with a bar of 0 the user wants every step, switches included
        if strength >= 1 and self.bar and self.is_mode_switch(span):
            return REJECTED_STRENGTH
        return strength

    def get_statistics(self, span: BoundarySpan) -> BoundaryStatistics:
        """Test statistics of a span, from either cache or computed."""
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
        """Whether the boundary of a span is one of many switches between two modes of a machine."""
        switch = self.cache.mode_switches.get(span)
        if switch is None:
            switch = self.previous.mode_switches.get(span)
            last = min(len(self.logs), span[1] + SWITCH_WINDOW)
            # a cached answer holds if it is final, or if the window has not grown since
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
    """The points that test boundary ``k``: to the next boundaries, at most 40 a side."""
    start, at, end = edges[k - 1], edges[k], edges[k + 1]
    # min() and max() would take three times as long, and this is the innermost call of pruning
    return (
        start if start > at - MAX_SIDE_POINTS else at - MAX_SIDE_POINTS,
        at,
        end if end < at + MAX_SIDE_POINTS else at + MAX_SIDE_POINTS,
    )
