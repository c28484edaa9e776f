"""Switches of a machine between modes: steps of one size to and fro, again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfci.stats.location_estimates import Floats

MIN_SWITCHES = 7
"""Steps of one size that alternate in direction. Code goes back to where it came from in about a
quarter of its changes (docs/design/statistics.md), so six times in a row hardly once in four
thousand."""

SAME_SIZE_SHARE = 1 / 5
"""Steps whose sizes differ by at most a fifth are of one size, however quiet the series."""

SAME_SIZE_ERRORS, MAX_SIZE_DIFFERENCE = 3.0, 1 / 2
"""Otherwise by three standard errors of the second step, at most half of the first."""


def find_alternating_steps(edges: Sequence[int], levels: Sequence[float] | Floats) -> set[int]:
    """Boundaries that are switches between modes: one of ``MIN_SWITCHES`` or more steps of its size whose
    directions alternate, steps of other sizes left out.

    ``edges`` holds the first point of each of the n segments and the end, ``levels`` their means in units
    of the noise. A real change between two switches so does not hide them.
    """
    boundaries = edges[1:-1]
    if len(boundaries) < MIN_SWITCHES:
        return set()
    steps = np.diff(levels)
    lengths = np.diff(edges)
    errors = np.sqrt(1 / lengths[:-1] + 1 / lengths[1:])
    sizes = np.abs(steps)
    # row k: what step k and each other may differ by, and which others are of its size
    tolerances = np.maximum(
        SAME_SIZE_SHARE * sizes[:, None],
        np.minimum(SAME_SIZE_ERRORS * errors, MAX_SIZE_DIFFERENCE * sizes[:, None]),
    )
    is_same_size = np.abs(sizes - sizes[:, None]) <= tolerances
    is_rise = steps > 0
    return {
        boundary
        for k, (boundary, others) in enumerate(zip(boundaries, is_same_size, strict=True))
        if alternating_run_length(is_rise[others].tolist(), int(np.count_nonzero(others[:k]))) >= MIN_SWITCHES
    }


def alternating_run_length(is_rise: Sequence[bool], k: int) -> int:
    """Length of the run of alternating directions that element ``k`` belongs to."""
    first = last = k
    while first > 0 and is_rise[first - 1] != is_rise[first]:
        first -= 1
    while last + 1 < len(is_rise) and is_rise[last] != is_rise[last + 1]:
        last += 1
    return last - first + 1
