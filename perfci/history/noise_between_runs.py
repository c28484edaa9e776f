"""How far the levels of a series wander from one run to the next where nothing changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from perfci.stats.noise_floor import robust_sd_about_zero

NOISE_COMMITS = 30
"""Last commits whose levels the noise is taken from: enough for a figure within a fifth."""

MIN_DIFFERENCES = 3
"""Fewest differences of consecutive levels with a noise."""


def estimate_noise_between_runs(levels: Sequence[float]) -> float | None:
    """The standard deviation of the log of one level, from levels in the order of their commits.

    Consecutive levels differ by two such deviations, whose variances add; a step is one large difference
    among many, which the robust estimate leaves out (successive differences: von Neumann et al., 1941).
    None for fewer than four levels, or where one is not above zero.
    """
    if len(levels) <= MIN_DIFFERENCES or min(levels) <= 0:
        return None
    differences = [math.log(later / earlier) for earlier, later in pairwise(levels)]
    return robust_sd_about_zero(differences) / math.sqrt(2)


def join_noise_of_sides(base: float | None, head: float | None) -> float | None:
    """The noise of one run on either of two sides, which may be two series; None where one is not known."""
    return None if base is None or head is None else math.sqrt((base**2 + head**2) / 2)
