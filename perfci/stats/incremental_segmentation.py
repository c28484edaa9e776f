"""Change points of series that grow: appending points gives what a run from scratch gives.

``optimal_partitioning`` proposes boundaries. Backward elimination then removes the weakest one that its
points do not support (``segment_boundary_test``), until all that are left pass. Both keep their
intermediate results with the series, so an update starts at the first point that changed. When the
estimated noise of a series changes, which is rare (``optimal_partitioning.LOG_SIGMA_STEP``), all of it is
computed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from perfci.stats.location_estimates import Floats
from perfci.stats.optimal_partitioning import (
    CLIP_REACH,
    EMPTY_PARTITION,
    MIN_SEGMENT_POINTS,
    Partition,
    PreprocessedSeries,
    clip_spikes,
    extend_partitions,
    preprocess_series,
)
from perfci.stats.segment_boundary_test import (
    MAX_SIDE_POINTS,
    MAX_SPIKE_POINTS,
    BoundaryTest,
    BoundaryTestCache,
    RemovedBoundary,
    sort_with_median,
)
from perfci.stats.step_size import LevelStep, estimate_level_step
from perfci.stats.variance_inflation import ar1_variance_inflation

MIN_POINTS = 8
"""A shorter series has no change points: three points a side leave nothing to estimate the noise
from."""

SERIES_PER_BATCH = 1024
"""Series whose intermediate arrays are held at once: some tens of megabytes at 500 points each."""

RELOCATION_REACH = 2 * CLIP_REACH
"""Farthest a boundary is moved: spikes that clipping pulled in lie within this many points."""

MIN_RELOCATION_GAIN = 0.5
"""A boundary moves where that lowers the sum of absolute distances from both levels by half of the
step or more."""

MAX_AUTOCORRELATION = 0.6
"""Cap of the lag-1 autocorrelation: neighbours more correlated than this mean a drifting level."""

MAX_ERROR_INFLATION = math.sqrt(ar1_variance_inflation(MAX_AUTOCORRELATION))
"""Largest widening of standard errors: what passes with it needs no estimate of the
autocorrelation."""


@dataclass(frozen=True, slots=True)
class SegmentedSeries:
    """A series of shape (n,), its steps of at least ``bar`` (0: every step), and what an update needs."""

    values: Floats = field(default_factory=lambda: np.empty(0))
    bar: float = 0.05
    change_points: list[LevelStep] = field(default_factory=list)
    _preprocessed: PreprocessedSeries | None = None
    _partition: Partition = EMPTY_PARTITION
    _test_cache: BoundaryTestCache = field(default_factory=BoundaryTestCache)


def detect_change_points_in_many(
    series: Sequence[Sequence[float] | Floats], min_effect: float = 0.05
) -> list[list[LevelStep]]:
    """Every lasting step of at least ``min_effect`` in each series; 0 means every step. Series are
    independent, batches only save time."""
    empty, results = SegmentedSeries(bar=min_effect), []
    for start in range(0, len(series), SERIES_PER_BATCH):
        batch = series[start : start + SERIES_PER_BATCH]
        results += [
            segmented.change_points for segmented in update_segmentations([empty] * len(batch), batch)
        ]
    return results


def update_segmentations(
    previous: Sequence[SegmentedSeries], values: Sequence[Sequence[float] | Floats]
) -> list[SegmentedSeries]:
    """Segment the present values of series that were segmented before: grown, shortened or
    corrected.

    Element k of the result belongs to ``previous[k]`` and ``values[k]``; an unchanged series is
    returned as it is.
    """
    arrays = [_validate_values(raw) for raw in values]
    equal_points: list[int] = []
    updated, changed = list(previous), []
    for k, (old, array) in enumerate(zip(previous, arrays, strict=True)):
        size = min(len(old.values), len(array))
        differs = old.values[:size] != array[:size]
        equal_points.append(int(differs.argmax()) if differs.any() else size)
        if len(array) < MIN_POINTS:
            updated[k] = SegmentedSeries(array, old.bar)
        elif not equal_points[k] == len(array) == len(old.values):
            changed.append(k)
    preprocessed = preprocess_series(
        [arrays[k] for k in changed], [(previous[k]._preprocessed, equal_points[k]) for k in changed]
    )
    # equal values in other units, of the noise or of the scale, count as changed
    unchanged = []
    for k, series in zip(changed, preprocessed, strict=True):
        before = previous[k]._preprocessed
        has_same_units = before is not None and (before.sigma, before.scale) == (series.sigma, series.scale)
        unchanged.append(equal_points[k] if has_same_units else 0)
    # extend each partition of the points whose clipped values are the same by the other clipped values
    new_points = clip_spikes(preprocessed, unchanged)
    prefixes = []
    for k, series, points in zip(changed, preprocessed, new_points, strict=True):
        partition, kept = previous[k]._partition, len(series.logs) - len(points) + 1
        sums, costs = partition.cumulative_sums[:kept], partition.costs[:kept]
        prefixes.append(Partition(sums, costs, partition.last_segment_starts[:kept]))
    partitions = extend_partitions(prefixes, new_points)
    # test the boundaries of each partition
    for k, series, same_points, partition in zip(changed, preprocessed, unchanged, partitions, strict=True):
        bar, test_cache = previous[k].bar, previous[k]._test_cache
        sums = partition.cumulative_sums
        test = BoundaryTest(series.logs, sums, series.sigma, bar, test_cache, same_points)
        steps = locate_steps(test, prune_boundaries(test, partition.boundaries), series.scale)
        updated[k] = SegmentedSeries(arrays[k], bar, steps, series, partition, test.cache)
    return updated


def _validate_values(values: Sequence[float] | Floats) -> Floats:
    """Return values as a float array of shape (n,); refuse what is not finite."""
    line = np.array(values, dtype=float)
    if line.ndim != 1 or not np.isfinite(line).all():
        index = int(np.argmin(np.isfinite(line))) if line.ndim == 1 else 0
        description = f"{line[index]} at point {index}" if line.ndim == 1 else f"{line.ndim} dimensions"
        raise ValueError(
            f"expected a line of finite numbers, found {description}; leave out what was not measured"
        )
    return line


def prune_boundaries(test: BoundaryTest, candidates: Sequence[int]) -> list[int]:
    """Remove the weakest boundary until all that are left pass; its neighbours are tested again
    each time.

    First as if neighbouring points were independent, which costs no pass over the whole series;
    then with standard errors widened by the autocorrelation of what is left.
    """
    edges, previous = [0, *candidates, len(test.logs)], test.previous
    if (
        previous.removed
        and previous.candidates == candidates
        and test.unchanged_points == previous.point_count
    ):
        edges = _replay_removals(test, edges)
    strengths = [test.compute_strength(edges, k) for k in range(1, len(edges) - 1)]
    while strengths and (lowest := min(strengths)) < 1:
        weakest = strengths.index(lowest)
        del strengths[weakest]
        next_strength = min(strengths, default=math.inf) if weakest == len(strengths) else math.inf
        test.cache.removed.append(RemovedBoundary(edges.pop(weakest + 1), lowest, next_strength))
        # the boundary before the previous one is rejected where a spike follows it, which may now be longer
        neighbours = 2 if edges[weakest] - edges[weakest - 1] <= MAX_SPIKE_POINTS else 1
        for k in range(max(weakest - neighbours, 0), min(weakest + 1, len(strengths))):
            strengths[k] = test.compute_strength(edges, k + 1)
    # only these first removals are replayed: the second phase depends on the whole series
    test.cache.point_count, test.cache.candidates = len(test.logs), candidates
    while any(test.compute_strength(edges, k, MAX_ERROR_INFLATION) < 1 for k in range(1, len(edges) - 1)):
        inflation = math.sqrt(_variance_inflation(test.clipped_values, edges))
        strengths = [test.compute_strength(edges, k, inflation) for k in range(1, len(edges) - 1)]
        if (lowest := min(strengths)) >= 1:
            break
        del edges[strengths.index(lowest) + 1]
    return edges[1:-1]


def _replay_removals(test: BoundaryTest, edges: Sequence[int]) -> list[int]:
    """Repeat the removals of the previous run as far as appended points cannot change them; return
    the edges that are left.

    Appended points change only the statistics of the last boundary and the mode switches. As long
    as no mode switch differs, and the last boundary is no weaker against the one that was removed
    instead, the removals come in the same order and need no new test.
    """
    previous, edges = test.previous, list(edges)
    if not _has_same_mode_switches(test):
        return edges
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
    return edges


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


def _variance_inflation(clipped: Floats, edges: Sequence[int]) -> float:
    """Factor by which autocorrelation widens the variance of a mean of neighbouring points.

    With r the lag-1 autocorrelation of the residuals around k levels in n points, corrected for the
    share that estimating the levels hides (Kendall 1954): r + k (1 + 3 r) / n.
    """
    parts = [clipped[start:end] for start, end in pairwise(edges)]
    residuals = np.concatenate([part - sort_with_median(part)[1] for part in parts])
    r = float((residuals[1:] * residuals[:-1]).mean() / max(float((residuals**2).mean()), 1e-12))
    # estimating a level from few points makes their residuals look less correlated than they are
    hidden = (len(edges) - 1) * (1 + 3 * max(r, 0.0)) / len(clipped)
    return ar1_variance_inflation(min(max(r + hidden, 0.0), MAX_AUTOCORRELATION))


def locate_steps(test: BoundaryTest, boundaries: Sequence[int], scale: float) -> list[LevelStep]:
    """Place each boundary where the unclipped values separate best, by absolute distance from both
    levels; return the steps with their levels, of at most ``test.reach`` points a side.

    Segmentation works on clipped values: a spike just before a step is pulled towards the level
    after it, which can shift the boundary by a few points.
    """
    edges, placed = [0, *boundaries, len(test.logs)], [0]
    for k, boundary in enumerate(boundaries, 1):
        _, statistics = test.get_span_and_statistics(edges, k)
        after_last = placed[-1] + MIN_SEGMENT_POINTS
        first = min(max(after_last, boundary - RELOCATION_REACH), boundary)
        last = max(min(edges[k + 1] - MIN_SEGMENT_POINTS, boundary + RELOCATION_REACH), boundary)
        near = test.logs[first:last]
        excess = np.abs(near - statistics.before) - np.abs(near - statistics.after)
        costs = np.concatenate([[0.0], np.cumsum(excess)])
        best = int(costs.argmin())
        gain = costs[boundary - first] - costs[best]
        is_better = gain > MIN_RELOCATION_GAIN * abs(statistics.after - statistics.before)
        placed.append(first + best if is_better else boundary)
    placed.append(len(test.logs))
    return [
        estimate_level_step(
            at,
            test.logs[max(start, at - test.reach) : at],
            test.logs[at : min(end, at + test.reach)],
            scale,
        )
        for start, at, end in zip(placed, placed[1:], placed[2:], strict=False)
    ]
