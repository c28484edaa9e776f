"""Proof for every boundary that a segmentation proposes.

A boundary stays only when the step is large enough for the user, significant for the noise, separated in ranks, not
gone again at once, and no mere hop of a machine that keeps returning to the same states.
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
from perfci.stats.preprocessing import CLIP_REACH
from perfci.stats.segmentation import MIN_SEGMENT_POINTS

RELOCATION_REACH = 2 * CLIP_REACH
"""So far from a boundary points may lie that spikes had pulled in, or be such spikes."""

MIN_RELOCATION_GAIN = 0.5
"""A boundary gives way to another place where that brings the points nearer to their levels by half of the step."""

MAX_AUTOCORRELATION = 0.6
"""Neighbouring points that resemble each other more than this are a level that moves."""


@dataclass(frozen=True, slots=True)
class LevelStep:
    """The level moves at ``index``, the first point of the new level, by the log ratio ``size``."""

    index: int
    size: float


def prune_boundaries(test: BoundaryTest, candidates: Sequence[int]) -> tuple[LevelStep, ...]:
    """Drop the least proven boundary until every one left is proven; its neighbours are judged anew each time.

    First as if neighbouring points had nothing in common, then with what those levels say of that; a boundary that
    fails already the first time costs no look at the whole line, nor do boundaries that stand whatever it says.
    """
    kept = _prune_assuming_independence(test, _replay_removals(test, candidates))
    test.cache.point_count, test.cache.candidates = len(test.logs), candidates
    while kept and (least := _weakest_boundary(test, kept)) is not None:
        kept.remove(least)
    return _locate_steps(test, test.edges(kept))


def _locate_steps(test: BoundaryTest, edges: Sequence[int]) -> tuple[LevelStep, ...]:
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
    """Where near a boundary the points as they are part best into the levels of its two sides.

    Segmentation sees spikes pulled in towards their neighbours, and the last points before a step, where spikes went
    before them, towards the level that follows.
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
    return (
        first + best
        if costs[boundary - first] - costs[best]
        > MIN_RELOCATION_GAIN * abs(statistics.after - statistics.before)
        else boundary
    )


def _prune_assuming_independence(test: BoundaryTest, boundaries: Sequence[int]) -> list[int]:
    """The boundaries that are left when all are proven as if neighbouring points had nothing in common."""
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
    """The first boundary to be judged anew: the last but one before the gap only if what follows it is brief."""
    return max(removed - 2 if edges[removed] - edges[removed - 1] <= MAX_SPIKE_POINTS else removed - 1, 0)


def _replay_removals(test: BoundaryTest, candidates: Sequence[int]) -> list[int]:
    """The boundaries that are left when those are gone that went before and surely go again, as points were appended.

    Those speak only for the last boundary, and for a hop. As long as they say nothing of a hop that was not said
    before, and the last boundary is proven not less than the one that went instead, the others go in the same order.
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
    """Whether the boundaries that hop are the same; what the end of the line said does not matter any more."""
    points, reusable = test.previous.point_count, {}
    for span, switch in test.previous.mode_switches.items():
        if switch.end < points or (switch.is_final and span[2] < points):
            reusable[span] = switch
        elif span[2] < points and test.is_mode_switch(span) != switch.is_switch:
            return False
    test.cache.mode_switches |= reusable
    return True


def _weakest_boundary(test: BoundaryTest, boundaries: Sequence[int]) -> int | None:
    """The boundary that is not proven, least of all, where neighbouring points have something in common."""
    edges = test.edges(boundaries)
    inner = range(1, len(edges) - 1)
    if all(test.compute_strength(edges, k, MAX_ERROR_INFLATION) >= 1 for k in inner):
        return None
    wider = math.sqrt(_variance_inflation(test.clipped, boundaries))
    strengths = [test.compute_strength(edges, k, wider) for k in inner]
    lowest = min(strengths)
    return boundaries[strengths.index(lowest)] if lowest < 1 else None


def _variance_inflation(clipped: Floats, boundaries: Sequence[int]) -> float:
    """How much wider neighbouring points that resemble each other make the variance: they count less.

    Every level that is estimated hides some of r, of short ones much (Kendall 1954).
    """
    edges = [0, *boundaries, len(clipped)]
    parts = [clipped[start:end] for start, end in pairwise(edges)]
    residuals = np.concatenate([part - median_of_sorted(sort_points(part)) for part in parts])
    r = float((residuals[1:] * residuals[:-1]).mean() / max(float((residuals**2).mean()), 1e-12))
    hidden = (len(boundaries) + 1) * (1 + 3 * max(r, 0.0)) / len(clipped)
    return _ar1_inflation(min(max(r + hidden, 0.0), MAX_AUTOCORRELATION))


def _ar1_inflation(r: float) -> float:
    """(1 + r) / (1 - r) of a first-order process whose neighbours correlate by r."""
    return (1 + r) / (1 - r)


MAX_ERROR_INFLATION = math.sqrt(_ar1_inflation(MAX_AUTOCORRELATION))
"""What errors are widened by at most: what stands that needs no look at how much it is."""
