"""Backward elimination of boundaries that a segmentation proposes and their points do not support.

A boundary stays only if its step is large enough for the user, significant against the noise,
separated in ranks, not taken back at once, and no switch between modes of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perfci.stats.boundary_statistics import BoundaryStatistics, median_of_sorted, sort_points
from perfci.stats.boundary_test import (
    MAX_SIDE_POINTS,
    MAX_SPIKE_POINTS,
    BoundaryTest,
    RemovedBoundary,
    boundary_span,
)
from perfci.stats.location import Floats
from perfci.stats.noise_model import ar1_inflation
from perfci.stats.preprocessing import CLIP_REACH
from perfci.stats.segmentation import MIN_SEGMENT_POINTS

RELOCATION_REACH = 2 * CLIP_REACH
"""Farthest a boundary is moved: spikes that clipping pulled in lie within this many points."""

MIN_RELOCATION_GAIN = 0.5
"""A boundary moves where that lowers the sum of absolute distances from both levels by half of the
step or more."""

MAX_AUTOCORRELATION = 0.6
"""Cap of the lag-1 autocorrelation: neighbours more alike than this mean a drifting level."""


@dataclass(frozen=True, slots=True)
class LevelStep:
    """The level moves at ``index``, the first point of the new level, by the log ratio ``size``."""

    index: int
    size: float


def prune_boundaries(test: BoundaryTest, candidates: Sequence[int]) -> tuple[LevelStep, ...]:
    """Remove the weakest boundary until all that are left pass; its neighbours are tested again
    each time.

    First as if neighbouring points were independent, which costs no pass over the whole series;
    then with standard errors widened by the autocorrelation of what is left.
    """
    kept = _prune_assuming_independence(test, _replay_removals(test, candidates))
    # only these first removals are replayed: the second phase depends on the whole series
    test.cache.point_count, test.cache.candidates = len(test.logs), candidates
    while kept and (least := _weakest_boundary(test, kept)) is not None:
        kept.remove(least)
    return _locate_steps(test, test.edges(kept))


def _locate_steps(test: BoundaryTest, edges: Sequence[int]) -> tuple[LevelStep, ...]:
    """Place each boundary where the unclipped values separate best."""
    steps: list[LevelStep] = []
    for k in range(1, len(edges) - 1):
        statistics = test.get_statistics(boundary_span(edges, k))
        after_last = (steps[-1].index if steps else 0) + MIN_SEGMENT_POINTS
        at = _relocate_boundary(
            test.logs, edges[k], statistics, after_last, edges[k + 1] - MIN_SEGMENT_POINTS
        )
        steps.append(LevelStep(at, statistics.size))
    return tuple(steps)


def _relocate_boundary(
    logs: Floats, boundary: int, statistics: BoundaryStatistics, first: int, last: int
) -> int:
    """Index near a boundary that separates the unclipped values best, by absolute distance from
    both levels.

    Segmentation works on clipped values: a spike just before a step is pulled towards the level
    after it, which can shift the boundary by a few points.
    """
    first, last = (
        min(max(first, boundary - RELOCATION_REACH), boundary),
        max(min(last, boundary + RELOCATION_REACH), boundary),
    )
    near = logs[first:last]
    costs = np.concatenate(
        [[0.0], np.cumsum(np.abs(near - statistics.before) - np.abs(near - statistics.after))]
    )
    best = int(costs.argmin())
    gain = costs[boundary - first] - costs[best]
    if gain > MIN_RELOCATION_GAIN * abs(statistics.after - statistics.before):
        return first + best
    return boundary


def _prune_assuming_independence(test: BoundaryTest, boundaries: Sequence[int]) -> list[int]:
    """Boundaries that pass as if neighbouring points were independent."""
    edges = test.edges(boundaries)
    strengths = [test.compute_strength(edges, k) for k in range(1, len(edges) - 1)]
    while strengths and (lowest := min(strengths)) < 1:
        weakest = strengths.index(lowest)
        del strengths[weakest]
        next_strength = min(strengths, default=math.inf) if weakest == len(strengths) else math.inf
        test.cache.removed.append(RemovedBoundary(edges.pop(weakest + 1), lowest, next_strength))
        for k in range(_first_affected(edges, weakest), min(weakest + 1, len(strengths))):
            strengths[k] = test.compute_strength(edges, k + 1)
    return edges[1:-1]


def _first_affected(edges: Sequence[int], removed: int) -> int:
    """First boundary to test again after a removal."""
    # the boundary before the previous one is rejected where a spike follows it, which may now be longer
    if edges[removed] - edges[removed - 1] <= MAX_SPIKE_POINTS:
        return max(removed - 2, 0)
    return max(removed - 1, 0)


def _replay_removals(test: BoundaryTest, candidates: Sequence[int]) -> list[int]:
    """Repeat the removals of the previous run as far as appended points cannot change them.

    Appended points change only the statistics of the last boundary and the mode switches. As long
    as no mode switch differs, and the last boundary is no weaker against the one that was removed
    instead, the removals come in the same order and need no new test.
    """
    previous, edges = test.previous, test.edges(candidates)
    if (
        not previous.removed
        or test.unchanged_points != previous.point_count
        or candidates != previous.candidates
        or not _has_same_mode_switches(test)
    ):
        return edges[1:-1]
    test.cache.statistics |= {
        span: statistics for span, statistics in previous.statistics.items() if span[2] < previous.point_count
    }
    checked_edges: list[int] = []
    for removal in previous.removed:
        last_boundary, strength = edges[-2], removal.strength
        if last_boundary + MAX_SIDE_POINTS >= previous.point_count:
            if last_boundary - edges[-3] <= MAX_SPIKE_POINTS:
                break
            if edges[-3:] != checked_edges:
                checked_edges, last_proof = edges[-3:], test.compute_strength(edges, len(edges) - 2)
            strength = last_proof
            if (
                strength >= min(removal.next_strength, 1.0)
                if removal.boundary == last_boundary
                else strength < removal.strength
            ):
                break
        test.cache.removed.append(
            removal._replace(strength=strength) if removal.boundary == last_boundary else removal
        )
        edges.remove(removal.boundary)
    return edges[1:-1]


def _has_same_mode_switches(test: BoundaryTest) -> bool:
    """Whether appended points leave every mode switch as it was; copies the reusable ones."""
    points, reusable = test.previous.point_count, {}
    for span, switch in test.previous.mode_switches.items():
        if switch.end < points or (switch.is_final and span[2] < points):
            reusable[span] = switch
        elif span[2] < points and test.is_mode_switch(span) != switch.is_switch:
            return False
    test.cache.mode_switches |= reusable
    return True


def _weakest_boundary(test: BoundaryTest, boundaries: Sequence[int]) -> int | None:
    """The weakest boundary that fails with autocorrelated noise; None where all pass."""
    edges = test.edges(boundaries)
    inner = range(1, len(edges) - 1)
    if all(test.compute_strength(edges, k, MAX_ERROR_INFLATION) >= 1 for k in inner):
        return None
    wider = math.sqrt(_variance_inflation(test.clipped, boundaries))
    strengths = [test.compute_strength(edges, k, wider) for k in inner]
    lowest = min(strengths)
    return boundaries[strengths.index(lowest)] if lowest < 1 else None


def _variance_inflation(clipped: Floats, boundaries: Sequence[int]) -> float:
    """Factor by which autocorrelation widens the variance of a mean of neighbouring points.

    With r the lag-1 autocorrelation of the residuals around k levels in n points, corrected for the
    share that estimating the levels hides (Kendall 1954): r + k (1 + 3 r) / n.
    """
    edges = [0, *boundaries, len(clipped)]
    parts = [clipped[start:end] for start, end in pairwise(edges)]
    residuals = np.concatenate([part - median_of_sorted(sort_points(part)) for part in parts])
    r = float((residuals[1:] * residuals[:-1]).mean() / max(float((residuals**2).mean()), 1e-12))
    # estimating a level from few points makes their residuals look less correlated than they are
    hidden = (len(boundaries) + 1) * (1 + 3 * max(r, 0.0)) / len(clipped)
    return ar1_inflation(min(max(r + hidden, 0.0), MAX_AUTOCORRELATION))


MAX_ERROR_INFLATION = math.sqrt(ar1_inflation(MAX_AUTOCORRELATION))
"""Largest widening of standard errors: what passes with it needs no estimate of the
autocorrelation."""
