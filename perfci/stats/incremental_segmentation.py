"""Change points of series that grow: appending points gives what a run from scratch gives.

``optimal_partitioning`` proposes boundaries. Backward elimination then removes the weakest one that its
points do not support (``segment_boundary_test``), until all that are left pass. Both keep their
intermediate results with the series, so an update starts at the first point that changed. When the
estimated noise of a series changes, which is rare (``optimal_partitioning.LOG_SIGMA_STEP``), all of it is
computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from perfci.stats.alternating_steps import find_alternating_steps
from perfci.stats.location_estimates import Floats, median
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
    BoundaryTest,
    estimate_autocorrelation,
)
from perfci.stats.step_size import LevelStep, estimate_level_step

MIN_POINTS = 8
"""A shorter series has no change points: three points a side leave nothing to estimate the noise
from."""

SERIES_PER_BATCH = 1024
"""Series whose intermediate arrays are held at once: some tens of megabytes at 500 points each."""

MIN_LEVEL_POINTS = 4
"""Shortest segment whose points need not be a burst: one more than a spike has."""

RELOCATION_REACH = 2 * CLIP_REACH
"""Farthest a boundary is moved: spikes that clipping pulled in lie within this many points."""

MIN_RELOCATION_GAIN = 0.5
"""A boundary moves where that lowers the sum of absolute distances from both levels by half of the
step or more."""


@dataclass(frozen=True, slots=True)
class SegmentedSeries:
    """A series of shape (n,), its steps of at least ``bar`` (0: every step), and what an update needs."""

    values: Floats = field(default_factory=lambda: np.empty(0))
    bar: float = 0.05
    change_points: list[LevelStep] = field(default_factory=list)
    _preprocessed: PreprocessedSeries | None = None
    _partition: Partition = EMPTY_PARTITION


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
    for k, series, partition in zip(changed, preprocessed, partitions, strict=True):
        steps: list[LevelStep] = []
        if boundaries := partition.boundaries:
            clipped = np.diff(partition.cumulative_sums)
            r = estimate_autocorrelation(clipped)
            residuals = compute_residuals(series, boundaries)
            test = BoundaryTest(series.logs, residuals, series.sigma, r, previous[k].bar)
            steps = locate_steps(test, select_level_edges(test, boundaries, clipped), series.scale)
        updated[k] = SegmentedSeries(arrays[k], previous[k].bar, steps, series, partition)
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


def compute_residuals(series: PreprocessedSeries, boundaries: Sequence[int]) -> Floats:
    """Residuals of shape (n,) from the running median or the median of the own segment, whichever is nearer.

    Around a running median, the points of a short level are as far out as a burst; segments of fewer than
    ``MIN_LEVEL_POINTS`` may be one.
    """
    residuals = series.logs - series.running_medians
    for start, end in pairwise([0, *boundaries, len(series.logs)]):
        if end - start >= MIN_LEVEL_POINTS:
            own = series.logs[start:end] - median(series.logs[start:end])
            nearest = residuals[start:end]
            np.copyto(nearest, own, where=np.abs(own) < np.abs(nearest))
    return residuals


def prune_boundaries(test: BoundaryTest, edges: list[int]) -> None:
    """Remove the weakest boundary from ``edges`` until all that are left pass; its neighbours are tested
    again each time."""
    strengths = [test.compute_strength(edges, k) for k in range(1, len(edges) - 1)]
    while strengths and (lowest := min(strengths)) < 1:
        weakest = strengths.index(lowest)
        del strengths[weakest], edges[weakest + 1]
        # the boundary before the previous one is rejected where a spike follows it, which may now be longer
        for k in range(max(weakest - 2, 0), min(weakest + 1, len(strengths))):
            strengths[k] = test.compute_strength(edges, k + 1)


def select_level_edges(test: BoundaryTest, candidates: Sequence[int], clipped: Floats) -> list[int]:
    """Edges of the levels that are left of the candidates, with 0 and the end of the series.

    First go switches between modes of the machine (where the user does not ask for every step), then what
    is no step. What is a step but smaller than the bar stays: it is not reported, but around a level that
    spans it the others would look like noise with a memory.
    """
    edges = [0, *candidates, len(test.logs)]
    while True:
        if test.min_size:
            levels = np.add.reduceat(clipped, edges[:-1]) / np.diff(edges)
            if switches := find_alternating_steps(edges, levels):
                edges = [edge for edge in edges if edge not in switches]
                continue
        tested = len(edges)
        prune_boundaries(test, edges)
        if len(edges) == tested or not test.min_size:
            return edges


def locate_steps(test: BoundaryTest, edges: Sequence[int], scale: float) -> list[LevelStep]:
    """Place each boundary where the unclipped values separate best, by absolute distance from both
    levels; return the steps that are as large as the bar, with their levels.

    Segmentation works on clipped values: a spike just before a step is pulled towards the level
    after it, which can shift the boundary by a few points.
    """
    placed = [0]
    for k, boundary in enumerate(edges[1:-1], 1):
        before, after = map(median, test.get_side_values(edges, k))
        first = min(max(placed[-1] + MIN_SEGMENT_POINTS, boundary - RELOCATION_REACH), boundary)
        last = max(min(edges[k + 1] - MIN_SEGMENT_POINTS, boundary + RELOCATION_REACH), boundary)
        near = test.logs[first:last]
        excess = np.abs(near - before) - np.abs(near - after)
        costs = np.concatenate([[0.0], np.cumsum(excess)])
        best = first + int(costs.argmin())
        is_better = costs[boundary - first] - costs[best - first] > MIN_RELOCATION_GAIN * abs(after - before)
        # where the levels next to the other place are closer together than the bar, the step stays a step
        is_reported = abs(after - before) >= test.min_size
        if is_better and is_reported:
            before, after = map(median, test.get_side_values([placed[-1], best, edges[k + 1]], 1))
            is_better = abs(after - before) >= test.min_size
        placed.append(best if is_better else boundary)
    placed.append(len(test.logs))
    steps = (
        estimate_level_step(placed[k], *test.get_side_values(placed, k), scale)
        for k in range(1, len(placed) - 1)
    )
    return [step for step in steps if abs(step.size) >= test.min_size]
