"""Switches of a machine between modes: steps of one size to and fro, again and again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

MIN_SWITCHES = 7
"""Steps of one size that alternate in direction. Code goes back to where it came from in about a
quarter of its changes (docs/design/statistics.md), so six times in a row hardly once in four
thousand."""

SAME_SIZE_SHARE = 1 / 5
"""Steps whose sizes differ by at most a fifth are of one size, however quiet the series."""

SAME_SIZE_ERRORS, MAX_SIZE_DIFFERENCE = 3.0, 1 / 2
"""Otherwise by three standard errors of the second step, at most half of the first."""


def find_alternating_steps(edges: Sequence[int], levels: Sequence[float]) -> set[int]:
    """Boundaries that are switches between modes: one of ``MIN_SWITCHES`` or more steps of its size whose
    directions alternate, steps of other sizes left out.

    ``edges`` holds the first point of each of the n segments and the end, ``levels`` their means in units
    of the noise. A real change between two switches so does not hide them.
    """
    boundaries = edges[1:-1]
    if len(boundaries) < MIN_SWITCHES:
        return set()
    sizes = [after - before for before, after in pairwise(levels)]
    lengths = [end - start for start, end in pairwise(edges)]
    tolerances = [SAME_SIZE_ERRORS * math.sqrt(1 / first + 1 / last) for first, last in pairwise(lengths)]
    switches: set[int] = set()
    for k, size in enumerate(map(abs, sizes)):
        similar = [
            j
            for j, tolerance in enumerate(tolerances)
            if abs(abs(sizes[j]) - size)
            <= max(SAME_SIZE_SHARE * size, min(tolerance, MAX_SIZE_DIFFERENCE * size))
        ]
        if count_alternations([sizes[j] for j in similar], similar.index(k)) >= MIN_SWITCHES:
            switches.add(boundaries[k])
    return switches


def count_alternations(sizes: Sequence[float], k: int) -> int:
    """Length of the run of alternating signs that element ``k`` belongs to."""
    first = last = k
    while first > 0 and sizes[first - 1] * sizes[first] < 0:
        first -= 1
    while last + 1 < len(sizes) and sizes[last] * sizes[last + 1] < 0:
        last += 1
    return last - first + 1
