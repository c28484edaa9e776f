"""How far the levels of a series wander from one run to the next where nothing changed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import pairwise

from sqlalchemy.orm import Session as Transaction

from perfci.stats.noise_floor import robust_sd_about_zero
from perfci.store.queries.judging_inputs import load_result_levels

RUNS = 30
"""Commits whose levels the noise is taken from: enough for a figure within a fifth, few to read."""

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


def load_noise_between_runs(
    tx: Transaction, commit_ids: Sequence[int], series_ids: Collection[int] | None = None
) -> dict[int, float]:
    """The noise of series (all, or some) by id, from their levels at some commits, oldest first.

    A series without one is left out.
    """
    place = {commit_id: number for number, commit_id in enumerate(commit_ids)}
    levels: dict[int, dict[int, float]] = defaultdict(dict)
    for row in load_result_levels(tx, series_ids, commit_ids):
        level = row.level if row.level is not None else row.value
        if row.is_ok and level is not None:
            levels[row.series_id][place[row.commit_id]] = level
    estimates = {
        series_id: estimate_noise_between_runs([by_place[number] for number in sorted(by_place)])
        for series_id, by_place in levels.items()
    }
    return {series_id: noise for series_id, noise in estimates.items() if noise is not None}


def join_noise_of_sides(base: float | None, head: float | None) -> float | None:
    """The noise of one run on either of two sides, which may be two series; None where one is not known."""
    return None if base is None or head is None else math.sqrt((base**2 + head**2) / 2)
