"""Robust exact segmentation: where the level of a line of numbers probably moves.

Least squares on winsorised logs in units of the noise, solved exactly (Jackson et al. 2005) one point after the other.
What is best for the first points of a line does not depend on those that follow, so a line that grew is taken up again
from its first point that changed.
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
"""A level is at least three points long; one or two are a spike (study, 6.2)."""

PENALTY_FACTOR = 6.0
"""A boundary must gain this times log n in noise variances: twice the 3 log n of the modified BIC
(Zhang & Siegmund 2007), because the noise is only estimated and has heavy tails. n counts the points up to the next
boundary: what is past is then not judged by every point that arrives."""

MIN_PENALTY_POINTS = 150
"""A shorter history pays as if it were so long, so that its first levels need as much evidence as later ones: it is
the reach within which a machine's states are looked for (``hops.HOP_WINDOW``)."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The best partition of the first k points of a line, for every k."""

    cumulative_sums: Floats
    """Of the first k points."""
    costs: Floats
    """Of their best partition, less their sum of squares, which all partitions share."""
    last_segment_starts: NDArray[np.int32]
    """Where the last segment of that partition begins."""

    @property
    def boundaries(self) -> list[int]:
        """Of the best partition of all points."""
        starts, end = [], len(self.last_segment_starts) - 1
        while (end := int(self.last_segment_starts[end])) > 0:
            starts.append(end)
        return starts[::-1]

    def truncate(self, points: int) -> Partition:
        """The same of fewer points."""
        return Partition(
            self.cumulative_sums[: points + 1],
            self.costs[: points + 1],
            self.last_segment_starts[: points + 1],
        )


EMPTY_PARTITION = Partition(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int32))


def segment_series(scaled: Sequence[Floats]) -> list[list[int]]:
    """Boundaries of each line, whose noise has been scaled to 1."""
    return [partition.boundaries for partition in extend_partitions([EMPTY_PARTITION] * len(scaled), scaled)]


def extend_partitions(partitions: Sequence[Partition], new_points: Sequence[Floats]) -> list[Partition]:
    """Each partition with more points, in units of the noise; lines of like lengths are solved together."""
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
    """Optimal partitioning, a block of lines in step; a shorter line just reads off earlier.

    Where lines begin at different points those before are solved once more, to the same end.
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
    """Cost of the best partition of so many points, from ``first`` on.

    A segment of m points with the sum s costs its squares less s * s / m.
    """
    series_count, size = cumulative_sums.shape
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
        cost[:, 0] -= penalty
        choice = cost.argmin(axis=1)
        last_segment_starts[:, end] = choice
        costs[:, end] = cost[rows, choice] + penalty
