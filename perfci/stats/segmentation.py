"""Optimal partitioning of a series into segments of constant level, extendable point by point.

Least squares on clipped log values in units of the noise, solved exactly (Jackson et al. 2005).
With S the cumulative sums, the cost F of the best partition of the first t points is

    F(t) = min over s <= t - 3 of  F(s) - (S(t) - S(s))^2 / (t - s) + [s > 0] p(t),    F(0) = 0

where p(t) = 6 log(max(t, 150)); the sum of squares common to all partitions is left out. F(t)
depends on the first t points only, so a grown series continues at its first new point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfci.stats.location import Floats
from perfci.stats.preprocessing import ROWS_PER_BATCH

MIN_SEGMENT_POINTS = 3
"""Shortest segment; one or two points are a spike (docs/design/statistics.md)."""

PENALTY_FACTOR = 6.0
"""A boundary must gain this times log n in noise variances: twice the 3 log n of the modified BIC
(Zhang & Siegmund 2007), because the noise is only estimated and has heavy tails. n counts the
points up to the next boundary, so later points do not raise the penalty of earlier boundaries."""

MIN_PENALTY_POINTS = 150
"""A shorter series pays the penalty of this length, so that its first levels need as much evidence
as later ones; the length within which mode switches are searched for
(``mode_switching.SWITCH_WINDOW``)."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Best partitions of the first k points of a series for k = 0..n; all arrays have shape (n +
    1,)."""

    cumulative_sums: Floats
    """Sums of the first k values."""
    costs: Floats
    """F(k): cost of the best partition, less the sum of squares."""
    last_segment_starts: NDArray[np.int32]
    """First point of the last segment of that partition."""

    @property
    def boundaries(self) -> list[int]:
        """Boundaries of the best partition of all points, ascending."""
        starts, end = [], len(self.last_segment_starts) - 1
        while (end := int(self.last_segment_starts[end])) > 0:
            starts.append(end)
        return starts[::-1]

    def truncate(self, points: int) -> Partition:
        """The partitions of the first ``points`` points."""
        return Partition(
            self.cumulative_sums[: points + 1],
            self.costs[: points + 1],
            self.last_segment_starts[: points + 1],
        )


EMPTY_PARTITION = Partition(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int32))
"""The partition of no points, from which every series starts."""


def extend_partitions(partitions: Sequence[Partition], new_points: Sequence[Floats]) -> list[Partition]:
    """Extend each partition by new points in units of the noise; series of similar length share a
    batch."""
    order = sorted(
        range(len(partitions)), key=lambda row: (len(partitions[row].cumulative_sums), len(new_points[row]))
    )
    results: dict[int, Partition] = {}
    for start in range(0, len(order), ROWS_PER_BATCH):
        block = order[start : start + ROWS_PER_BATCH]
        results |= zip(
            block,
            _solve_batch([partitions[row] for row in block], [new_points[row] for row in block]),
            strict=True,
        )
    return [results[row] for row in range(len(partitions))]


def _solve_batch(partitions: Sequence[Partition], new_points: Sequence[Floats]) -> list[Partition]:
    """Extend a batch in step; a shorter series is read off earlier.

    Where series start at different points, the common part is computed again, with the same result.
    """
    sizes = [len(old.cumulative_sums) + len(new) for old, new in zip(partitions, new_points, strict=True)]
    sums, costs = np.zeros((2, len(partitions), max(sizes)))
    begins = np.zeros(sums.shape, dtype=np.int32)
    for row, (old, new) in enumerate(zip(partitions, new_points, strict=True)):
        size = len(old.cumulative_sums)
        sums[row, :size], costs[row, :size], begins[row, :size] = (
            old.cumulative_sums,
            old.costs,
            old.last_segment_starts,
        )
        sums[row, size - 1 : sizes[row]] = np.cumsum(np.concatenate([old.cumulative_sums[-1:], new]))
    _fill_costs(sums, costs, begins, min(len(old.cumulative_sums) for old in partitions))
    return [
        Partition(sums[row, :n].copy(), costs[row, :n].copy(), begins[row, :n].copy())
        for row, n in enumerate(sizes)
    ]


def _fill_costs(
    cumulative_sums: Floats, costs: Floats, last_segment_starts: NDArray[np.int32], first: int
) -> None:
    """Fill costs and last segment starts of shape (rows, n + 1) from column ``first`` on, in place."""
    series_count, size = cumulative_sums.shape
    # buffers are reused for every column: allocating them took a third of the time
    shares, rows, room = 1 / np.arange(size, 0, -1.0), np.arange(series_count), np.empty(series_count * size)
    costs[:, 1:MIN_SEGMENT_POINTS] = np.inf
    for end in range(max(first, MIN_SEGMENT_POINTS), size):
        penalty = PENALTY_FACTOR * math.log(max(end, MIN_PENALTY_POINTS))
        starts = end - MIN_SEGMENT_POINTS + 1
        flat = room[: series_count * starts]
        cost = flat.reshape(series_count, starts)
        np.subtract(cumulative_sums[:, end, None], cumulative_sums[:, :starts], out=cost)
        np.multiply(flat, flat, out=flat)
        np.multiply(cost, shares[size - end : size - end + starts], out=cost)
        np.subtract(costs[:, :starts], cost, out=cost)
        cost[:, 0] -= penalty  # the first segment begins at no boundary
        choice = cost.argmin(axis=1)
        last_segment_starts[:, end] = choice
        costs[:, end] = cost[rows, choice] + penalty
