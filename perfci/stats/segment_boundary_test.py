"""The test of one boundary of a series, with results that are kept while its points stay the same.

A boundary passes if its step is large enough for the user, stands out from the noise (z score of two
medians), is separated in ranks (Mann & Whitney 1947), is no spike, and no switch between modes of
the machine. Its strength is the smallest of what was measured over what is required; 1 passes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from perfci.stats.location_estimates import MAD_TO_SIGMA, Floats

REJECTED_STRENGTH = 0.5
"""Strength of a boundary that a rule excludes: it is removed before those that nearly pass."""

MIN_LEVEL_WINDOW, MAX_SIDE_POINTS = 15, 40
"""Fewest and most points either side that estimate the size of a step; what lies further back
belongs to another time."""

MAX_SPIKE_POINTS = 3
"""A level of up to three points that the next boundary takes back is a spike, no level
(docs/design/statistics.md)."""

MIN_SIGMAS, MIN_SIGMAS_SHORT_SIDE, SHORT_SIDE_POINTS = 4.0, 6.0, 5
"""Standard errors a step must stand out by; 6 where a side has fewer than five points, because a
noise estimate from so few is itself noisy. A first level of fewer than five points is never left
(docs/design/statistics.md)."""

MIN_RANK_SEPARATION = 0.85
"""Share of (before, after) pairs that must be ordered as the step is (docs/design/statistics.md)."""

RANK_TEST_LEVEL = 1e-3
"""One-sided level of the exact rank test: about one false page in a thousand points. For sides of
fewer than a dozen points it asks for more than ``MIN_RANK_SEPARATION``."""

LONG_SIDE_POINTS, CORE_SHARE = 15, 0.75
"""A side of 15 points or more may hold up to a quarter of spikes: the three quarters of it nearest
to its median, the core, are then tested as well."""

MEDIAN_ERROR_RATIO = 1.2533
"""Standard error of a median over that of a mean for normal data: sqrt(pi / 2)."""

SERIES_NOISE_DF = 8.0
"""Degrees of freedom given to the noise of the whole series when it moderates that of one side
(Smyth 2004). Three points that happen to lie close together do not prove a quiet level."""

SWITCH_WINDOW, MIN_RUNS = 150, 5
"""Five alternating runs at the old and the new level within 150 points either side are modes of the
machine (docs/design/statistics.md)."""

LONG_RUN_FACTOR, LONG_RUN_POINTS = 3, 20
"""A run three times as long as any other at its level, and of at least twenty points, is a new
level after all."""

RUN_PATTERN = re.compile(rb"\x00{2,}|\x01{2,}")
"""Two or more points in a row at one level, booleans as the bytes numpy stores them in."""

BoundarySpan = tuple[int, int, int]
"""Indices (start, boundary, end): the points start..boundary-1 against boundary..end-1."""


class RemovedBoundary(NamedTuple):
    """A removed boundary, its strength, and, if it was the last, the smallest strength that stayed."""

    boundary: int
    strength: float
    next_strength: float


@dataclass(frozen=True, slots=True)
class BoundaryStatistics:
    """Test statistics of one boundary; a ``strength`` of 1 is enough."""

    size: float
    """Log ratio of the levels next to the boundary, after / before."""
    strength: float
    """Size or rank separation as a multiple of what is required, whichever is smaller."""
    z_score: float
    """Size in standard errors of a difference of two medians, for independent points."""
    required_z_score: float
    """``MIN_SIGMAS``, or ``MIN_SIGMAS_SHORT_SIDE`` where a side is short."""
    before: float
    """Median log level of all points before the boundary."""
    after: float
    """Median log level of all points after it."""


@dataclass(frozen=True, slots=True)
class ModeSwitch:
    """Whether a boundary is a mode switch, from points up to ``end``; if ``is_final``, no later
    point changes the answer."""

    is_switch: bool
    is_final: bool
    end: int


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


class BoundaryTest:
    """One series under test: log values of shape (n,), clipped sums of shape (n + 1,), noise and
    bar.

    ``previous`` holds results that are valid for the first ``unchanged_points`` points; ``cache``
    collects those of this run. ``min_size`` is the bar as a log ratio.
    """

    def __init__(
        self,
        logs: Floats,
        clipped_sums: Floats,
        sigma: float,
        bar: float,
        previous: BoundaryTestCache,
        unchanged_points: int,
    ) -> None:
        self.logs = logs
        self.clipped_sums = clipped_sums
        self.sigma = sigma
        self.bar = bar
        self.previous = previous
        self.unchanged_points = unchanged_points
        self.cache = BoundaryTestCache()
        self.min_size = math.log1p(bar)
        # Levels creep, so the size is estimated from as few points a side as the noise allows: enough for
        # the standard error of the difference of two medians to be a tenth of the bar.
        self.reach = MAX_SIDE_POINTS
        if bar:
            needed = 2 * (10 * MEDIAN_ERROR_RATIO * sigma / self.min_size) ** 2
            self.reach = int(min(max(needed, MIN_LEVEL_WINDOW), MAX_SIDE_POINTS))

    @cached_property
    def clipped_values(self) -> Floats:
        """Values of shape (n,) in units of the noise, spikes clipped."""
        return self.clipped_sums[1:] - self.clipped_sums[:-1]

    def compute_strength(self, edges: Sequence[int], k: int, error_inflation: float = 1.0) -> float:
        """Strength of boundary ``k`` between its neighbours, standard errors multiplied by
        ``error_inflation``.

        The smallest of size, rank separation and z score, each over what it must be; 1 passes.
        Short first levels, spikes and mode switches get ``REJECTED_STRENGTH``.
        """
        start, at, end = edges[k - 1 : k + 2]
        if start == 0 and at < SHORT_SIDE_POINTS:
            return REJECTED_STRENGTH
        span, statistics = self.get_span_and_statistics(edges, k)
        if end - at <= MAX_SPIKE_POINTS and k + 2 < len(edges):
            _, following = self.get_span_and_statistics(edges, k + 1)
            if statistics.size * following.size < 0:
                return REJECTED_STRENGTH
        sigmas = statistics.z_score / (error_inflation * statistics.required_z_score)
        strength = sigmas if sigmas < statistics.strength else statistics.strength
        # the mode test is the most expensive one, so only what passes all others gets it;
        # with a bar of 0 the user wants every step, switches included
        if strength >= 1 and self.bar and self.is_mode_switch(span):
            return REJECTED_STRENGTH
        return strength

    def get_span_and_statistics(
        self, edges: Sequence[int], k: int
    ) -> tuple[BoundarySpan, BoundaryStatistics]:
        """The points that test boundary ``k``, to the next boundaries and at most 40 a side, and their
        statistics, from either cache or computed."""
        start, at, end = edges[k - 1], edges[k], edges[k + 1]
        # min() and max() would take three times as long, and this is the innermost call of pruning
        start = start if start > at - MAX_SIDE_POINTS else at - MAX_SIDE_POINTS
        end = end if end < at + MAX_SIDE_POINTS else at + MAX_SIDE_POINTS
        span = start, at, end
        statistics = self.cache.statistics.get(span)
        if statistics is None:
            statistics = self.previous.statistics.get(span) if end <= self.unchanged_points else None
            statistics = statistics or compute_boundary_statistics(
                self.logs[start:at], self.logs[at:end], self.reach, self.sigma, self.min_size
            )
            self.cache.statistics[span] = statistics
        return span, statistics

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
                _, levels = self.get_span_and_statistics(span, 1)
                switch = classify_mode_switch(self.logs[:last], span[1], levels.before, levels.after)
            self.cache.mode_switches[span] = switch
        return switch.is_switch


def compute_boundary_statistics(
    before: Floats, after: Floats, reach: int, sigma: float, min_size: float
) -> BoundaryStatistics:
    """Compute the test statistics of the boundary between two stretches of log values.

    With m1, m2 the medians of up to ``reach`` points next to the boundary, and n the points of a
    side, the size is m2 - m1 and the z score

        z = |m2 - m1| / (1.2533 sqrt(v1 / n1 + v2 / n2))
        v = max(s^2, ((n - 1) s^2 + 8 sigma^2) / (n - 1 + 8)),    s = 1.4826 MAD    (Smyth 2004)

    ``before`` and ``after`` have shapes (n1,) and (n2,); ``sigma`` is the noise of the whole series
    and ``min_size`` the bar, both in log units (0 means any size counts).
    """
    sides = []
    for points in (before, after):
        ordered, median = sort_with_median(points)
        distances, mad = sort_with_median(np.abs(ordered - median))
        # moderated by the noise of the series: three points may happen to lie close together
        own, df = (MAD_TO_SIGMA * mad) ** 2, len(points) - 1
        moderated = (df * own + SERIES_NOISE_DF * sigma**2) / (df + SERIES_NOISE_DF)
        sides.append((ordered, median, distances, max(own, moderated) / len(points)))
    (ordered_before, median_before, _, variance_before), (ordered_after, median_after, _, variance_after) = (
        sides
    )
    nearest_before = sort_with_median(before[-reach:])[1] if len(before) > reach else median_before
    nearest_after = sort_with_median(after[:reach])[1] if len(after) > reach else median_after
    size = nearest_after - nearest_before
    relative_size = abs(size) / min_size if min_size else math.inf
    shortest, needed = min(len(before), len(after)), MIN_RANK_SEPARATION
    if shortest < LONG_SIDE_POINTS:
        needed = max(needed, critical_separation(len(before), len(after), RANK_TEST_LEVEL))
    apart = rank_separation(ordered_before, ordered_after) / needed
    # long sides may pass with their cores instead, so that a share of spikes does not hide a step
    if apart < min(relative_size, 1.0) and shortest >= LONG_SIDE_POINTS:
        cores = []
        for ordered, median, distances, _ in sides:
            farthest = distances[int(CORE_SHARE * (len(ordered) - 1))]
            cores.append(ordered[np.abs(ordered - median) <= farthest])
        apart = max(apart, rank_separation(*cores) / needed)
    return BoundaryStatistics(
        size=size,
        strength=min(relative_size, apart),
        z_score=abs(size) / (MEDIAN_ERROR_RATIO * math.sqrt(variance_before + variance_after)),
        required_z_score=MIN_SIGMAS_SHORT_SIDE if shortest < SHORT_SIDE_POINTS else MIN_SIGMAS,
        before=median_before,
        after=median_after,
    )


def rank_separation(before: ArrayLike, after: ArrayLike) -> float:
    """Separation of two samples whatever its direction: 0.5 none, also for an empty sample; 1 full.

    With U of Mann & Whitney (1947), which counts the pairs (before, after) in ascending order and
    ties half, and s = U / (n1 n2): max(s, 1 - s). ``before`` must be sorted. It is the strongest
    guard against series that switch between modes.
    """
    left, right = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if not left.size or not right.size:
        return 0.5
    below_and_not_above = left.searchsorted(right, "left") + left.searchsorted(right, "right")
    share = int(below_and_not_above.sum()) / (2 * left.size * right.size)
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


def sort_with_median(points: Floats) -> tuple[Floats, float]:
    """Sorted points and their median; for so few, a tenth of the time of ``np.median``."""
    ordered = points.copy()
    # np.sort takes twice as long as ndarray.sort
    ordered.sort()
    half = len(ordered) // 2
    return ordered, float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def classify_mode_switch(logs: Floats, boundary: int, old_level: float, new_level: float) -> ModeSwitch:
    """Decide whether a boundary is one more switch between two modes of the machine.

    ``logs`` has shape (n,); levels are log values. Later points only lengthen the last run or add
    one, so a decision that does not rest on the last run is final.
    """
    first = max(0, boundary - SWITCH_WINDOW)
    # alternating runs at the old (False) and the new (True) level, as (start, end, is_new); a point
    # belongs to a level within a third of the distance between the two
    recent, near = logs[first:], abs(new_level - old_level) / 3
    at_new = np.abs(recent - new_level) < near
    positions = (at_new | (np.abs(recent - old_level) < near)).nonzero()[0]
    runs: list[tuple[int, int, bool]] = []
    for match in RUN_PATTERN.finditer(at_new[positions].tobytes()):
        start, end, is_new = (
            int(positions[match.start()]),
            int(positions[match.end() - 1]) + 1,
            match[0][0] == 1,
        )
        # two runs at one level with stray points between them are one run
        if runs and runs[-1][2] == is_new:
            start = runs.pop()[0]
        runs.append((start, end, is_new))
    begun_after = len(runs) > 1 and runs[1][0] >= boundary - first
    if len(runs) < MIN_RUNS or begun_after:
        return ModeSwitch(False, is_final=begun_after, end=len(logs))
    # the run of the boundary is a switch unless it is much longer than every other at the new level
    own = next(
        (k for k, (_, end, is_new) in enumerate(runs) if is_new and end > boundary - first), len(runs) - 1
    )
    other_lengths = [end - start for k, (start, end, is_new) in enumerate(runs) if is_new and k != own]
    is_switch = runs[own][1] - runs[own][0] < max(
        LONG_RUN_FACTOR * max(other_lengths, default=0), LONG_RUN_POINTS
    )
    return ModeSwitch(is_switch, is_final=is_switch and own < len(runs) - 1, end=len(logs))
