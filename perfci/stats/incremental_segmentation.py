"""Change points of series that grow: appending points gives what a run from scratch gives.

``segmentation`` proposes boundaries and ``boundary_pruning`` removes those the points do not
support. Both keep their intermediate results with the series, so an update starts at the first
point that changed. When the estimated noise of a series changes, which is rare
(``preprocessing.LOG_SIGMA_STEP``), all of it is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from perfci.stats import preprocessing
from perfci.stats.boundary_pruning import LevelStep, prune_boundaries
from perfci.stats.boundary_test import BoundaryTest, BoundaryTestCache
from perfci.stats.location import Floats
from perfci.stats.preprocessing import PreprocessedSeries
from perfci.stats.segmentation import EMPTY_PARTITION, Partition, extend_partitions

MIN_POINTS = 8
"""A shorter series has no change points: three points a side leave nothing to estimate the noise
from."""

SERIES_PER_BATCH = 1024
"""Series whose intermediate arrays are held at once: some tens of megabytes at 500 points each."""


@dataclass(frozen=True, slots=True)
class SegmentedSeries:
    """A series of shape (n,), its steps of at least ``bar`` (0: every step), and what an update
    needs."""

    values: Floats
    bar: float = 0.05
    steps: tuple[LevelStep, ...] = ()
    _preprocessed: PreprocessedSeries | None = None
    _partition: Partition = EMPTY_PARTITION
    _test_cache: BoundaryTestCache = field(default_factory=BoundaryTestCache)

    @classmethod
    def from_values(cls, values: Sequence[float] = (), bar: float = 0.05) -> SegmentedSeries:
        """Segment values from scratch."""
        return update_segmentations([cls(np.empty(0), bar)], [values])[0]

    @property
    def change_points(self) -> list[tuple[int, float]]:
        """The (index, after / before - 1) of every step."""
        return [(step.index, math.expm1(step.size)) for step in self.steps]


def detect_change_points(values: Sequence[float], min_effect: float = 0.05) -> list[tuple[int, float]]:
    """The (index, after / before - 1) of every lasting step of at least ``min_effect``; 0 means
    every step."""
    return detect_change_points_in_many([values], min_effect)[0]


def detect_change_points_in_many(
    series: Sequence[Sequence[float]], min_effect: float = 0.05
) -> list[list[tuple[int, float]]]:
    """Detect the change points of many series; each is independent, batches only save time."""
    empty, results = SegmentedSeries(np.empty(0), min_effect), []
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
    unchanged = [
        _common_prefix_length(old.values, array) for old, array in zip(previous, arrays, strict=True)
    ]
    updated = [
        SegmentedSeries(array, old.bar) if len(array) < MIN_POINTS else old
        for old, array in zip(previous, arrays, strict=True)
    ]
    changed = [
        k
        for k, array in enumerate(arrays)
        if len(array) >= MIN_POINTS and not unchanged[k] == len(array) == len(previous[k].values)
    ]
    preprocessed = preprocessing.preprocess_series(
        [arrays[k] for k in changed], [(previous[k]._preprocessed, unchanged[k]) for k in changed]
    )
    reusable = [
        _reusable_prefix_length(previous[k]._preprocessed, series, unchanged[k])
        for k, series in zip(changed, preprocessed, strict=True)
    ]
    partitions = _update_partitions([previous[k]._partition for k in changed], preprocessed, reusable)
    for k, series, prefix, partition in zip(changed, preprocessed, reusable, partitions, strict=True):
        old = previous[k]
        test = BoundaryTest(
            series.logs,
            partition.cumulative_sums,
            series.sigma,
            old.bar,
            old._test_cache,
            # in other units (no reusable prefix) equal values have other test statistics
            unchanged[k] if prefix else 0,
        )
        steps = prune_boundaries(test, partition.boundaries)
        updated[k] = SegmentedSeries(arrays[k], old.bar, steps, series, partition, test.cache)
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


def _common_prefix_length(old: Floats, new: Floats) -> int:
    """Number of leading points that are equal."""
    size = min(len(old), len(new))
    differs = old[:size] != new[:size]
    return int(differs.argmax()) if differs.any() else size


def _reusable_prefix_length(
    old: PreprocessedSeries | None, new: PreprocessedSeries, prefix_length: int
) -> int:
    """Number of leading points whose clipped values are the same: 0 if the noise or the scale
    differs."""
    if old is None or (old.sigma, old.scale) != (new.sigma, new.scale):
        return 0
    return preprocessing.count_unaffected_medians(prefix_length, preprocessing.CLIP_REACH)


def _update_partitions(
    previous: Sequence[Partition], preprocessed: Sequence[PreprocessedSeries], reusable: Sequence[int]
) -> list[Partition]:
    """Extend each partition by the clipped values after its reusable prefix."""
    new_points: dict[int, Floats] = {}
    for batch in preprocessing.batch_by_key(
        [(line.point_count, reusable[k]) for k, line in enumerate(preprocessed)]
    ):
        new_points |= zip(
            batch,
            preprocessing.clip_spikes([preprocessed[k] for k in batch], reusable[batch[0]]),
            strict=True,
        )
    return extend_partitions(
        [partition.truncate(reusable[k]) for k, partition in enumerate(previous)],
        [new_points[k] for k in range(len(preprocessed))],
    )
