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
from perfci.stats.preprocessing import BLOCK

MIN_SEGMENT = 3
"""A level is at least three points long; one or two are a spike (study, 6.2)."""

PENALTY = 6.0
"""A boundary must gain this times log n in noise variances: twice the 3 log n of the modified BIC
(Zhang & Siegmund 2007), because the noise is only estimated and has heavy tails. n counts the points up to the next
boundary: what is past is then not judged by every point that arrives."""

FEWEST = 150
"""A shorter history pays as if it were so long, so that its first levels need as much evidence as later ones: it is
the reach within which a machine's states are looked for (``hops.HOP_WINDOW``)."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The best partition of the first k points of a line, for every k."""

    sums: Floats
    """Of the first k points."""
    costs: Floats
    """Of their best partition, less their sum of squares, which all partitions share."""
    begins: NDArray[np.int32]
    """Where the last segment of that partition begins."""

    @property
    def boundaries(self) -> list[int]:
        """Of the best partition of all points."""
        found, end = [], len(self.begins) - 1
        while (end := int(self.begins[end])) > 0:
            found.append(end)
        return found[::-1]

    def of_the_first(self, points: int) -> Partition:
        """The same of fewer points."""
        return Partition(self.sums[: points + 1], self.costs[: points + 1], self.begins[: points + 1])


EMPTY = Partition(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int32))


def segment(scaled: Sequence[Floats]) -> list[list[int]]:
    """Boundaries of each line, whose noise has been scaled to 1."""
    return [one.boundaries for one in extend([EMPTY] * len(scaled), scaled)]


def extend(known: Sequence[Partition], more: Sequence[Floats]) -> list[Partition]:
    """Each partition with more points, in units of the noise; lines of like lengths are solved together."""
    order = sorted(range(len(known)), key=lambda row: (len(known[row].sums), len(more[row])))
    found: dict[int, Partition] = {}
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        found |= zip(block, _solve([known[row] for row in block], [more[row] for row in block]), strict=True)
    return [found[row] for row in range(len(known))]


def _solve(known: Sequence[Partition], more: Sequence[Floats]) -> list[Partition]:
    """Optimal partitioning, a block of lines in step; a shorter line just reads off earlier.

    Where lines begin at different points those before are solved once more, to the same end.
    """
    sizes = [len(old.sums) + len(new) for old, new in zip(known, more, strict=True)]
    sums, costs = np.zeros((2, len(known), max(sizes)))
    begins = np.zeros(sums.shape, dtype=np.int32)
    for row, (old, new) in enumerate(zip(known, more, strict=True)):
        size = len(old.sums)
        sums[row, :size], costs[row, :size], begins[row, :size] = old.sums, old.costs, old.begins
        sums[row, size - 1 : sizes[row]] = np.cumsum(np.concatenate([old.sums[-1:], new]))
    _fill(sums, costs, begins, min(len(old.sums) for old in known))
    return [
        Partition(sums[row, :n].copy(), costs[row, :n].copy(), begins[row, :n].copy()) for row, n in enumerate(sizes)
    ]


def _fill(sums: Floats, costs: Floats, begins: NDArray[np.int32], first: int) -> None:
    """Cost of the best partition of so many points, from ``first`` on.

    A segment of m points with the sum s costs its squares less s * s / m.
    """
    lines, size = sums.shape
    shares, rows, room = 1 / np.arange(size, 0, -1.0), np.arange(lines), np.empty(lines * size)
    costs[:, 1:MIN_SEGMENT] = np.inf
    for end in range(max(first, MIN_SEGMENT), size):
        penalty = PENALTY * math.log(max(end, FEWEST))
        starts = end - MIN_SEGMENT + 1
        flat = room[: lines * starts]
        cost = flat.reshape(lines, starts)
        np.subtract(sums[:, end, None], sums[:, :starts], out=cost)
        np.multiply(flat, flat, out=flat)
        np.multiply(cost, shares[size - end : size - end + starts], out=cost)
        np.subtract(costs[:, :starts], cost, out=cost)
        cost[:, 0] -= penalty
        choice = cost.argmin(axis=1)
        begins[:, end] = choice
        costs[:, end] = cost[rows, choice] + penalty
