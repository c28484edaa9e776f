"""Where the levels of lines move, one point after the other or all at once: the same answer either way.

Segmentation proposes, proof disposes. What was found is kept with the line: a line that grew is looked at again from
its first point that changed, and any other is not looked at. Where the line's own noise is read anew, its whole past is
judged anew with it; that is rare (``lines.SIGMA_STEP``).
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
"""A shorter history gets no verdict (DESIGN 6): three points a side leave nothing to tell noise from level."""

SERIES_PER_BATCH = 1024
"""Lines whose intermediate numbers are held at the same time: some tens of megabytes of lines of 500 points."""


@dataclass(frozen=True, slots=True)
class SegmentedSeries:
    """A line, the moves of its level by at least ``bar`` (0 means every move), and what was needed to find them."""

    values: Floats
    bar: float = 0.05
    steps: tuple[LevelStep, ...] = ()
    _preprocessed: PreprocessedSeries | None = None
    _partition: Partition = EMPTY_PARTITION
    _test_cache: BoundaryTestCache = field(default_factory=BoundaryTestCache)

    @classmethod
    def from_values(cls, values: Sequence[float] = (), bar: float = 0.05) -> SegmentedSeries:
        return update_segmentations([cls(np.empty(0), bar)], [values])[0]

    @property
    def change_points(self) -> list[tuple[int, float]]:
        """The (index, after/before - 1) of every move."""
        return [(step.index, math.expm1(step.size)) for step in self.steps]

    def append(self, value: float) -> SegmentedSeries:
        return update_segmentations([self], [np.append(self.values, value)])[0]

    def insert(self, index: int, value: float) -> SegmentedSeries:
        """The line with a point that was measured later than those that follow it."""
        return update_segmentations([self], [np.insert(self.values, index, value)])[0]


def detect_change_points(values: Sequence[float], min_effect: float = 0.05) -> list[tuple[int, float]]:
    """The (index, after/before - 1) of every lasting move of at least ``min_effect``; 0 means every move."""
    return detect_change_points_in_many([values], min_effect)[0]


def detect_change_points_in_many(
    series: Sequence[Sequence[float]], min_effect: float = 0.05
) -> list[list[tuple[int, float]]]:
    """The same for many series at once; each stands alone, together they are only faster."""
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
    """Each known line as it is now: longer, shorter or corrected; only what changed is looked at."""
    lines = [_validate_values(raw) for raw in values]
    unchanged = [_common_prefix_length(old.values, line) for old, line in zip(previous, lines, strict=True)]
    updated = [
        SegmentedSeries(line, old.bar) if len(line) < MIN_POINTS else old
        for old, line in zip(previous, lines, strict=True)
    ]
    changed = [
        k
        for k, line in enumerate(lines)
        if len(line) >= MIN_POINTS and not _is_unchanged(previous[k].values, line, unchanged[k])
    ]
    preprocessed = preprocessing.preprocess_series(
        [lines[k] for k in changed], [(previous[k]._preprocessed, unchanged[k]) for k in changed]
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
            unchanged[k] if prefix else 0,
        )
        steps = prune_boundaries(test, partition.boundaries)
        updated[k] = SegmentedSeries(lines[k], old.bar, steps, series, partition, test.cache)
    return updated


def _validate_values(values: Sequence[float] | Floats) -> Floats:
    line = np.array(values, dtype=float)
    if line.ndim != 1 or not np.isfinite(line).all():
        index = int(np.argmin(np.isfinite(line))) if line.ndim == 1 else 0
        description = f"{line[index]} at point {index}" if line.ndim == 1 else f"{line.ndim} dimensions"
        raise ValueError(
            f"expected a line of finite numbers, found {description}; leave out what was not measured"
        )
    return line


def _common_prefix_length(old: Floats, new: Floats) -> int:
    """How many first points are the same."""
    size = min(len(old), len(new))
    differs = old[:size] != new[:size]
    return int(differs.argmax()) if differs.any() else size


def _is_unchanged(old: Floats, new: Floats, prefix_length: int) -> bool:
    return prefix_length == len(old) == len(new)


def _reusable_prefix_length(
    old: PreprocessedSeries | None, new: PreprocessedSeries, prefix_length: int
) -> int:
    """For how many first points all that segmentation looks at is the same: none if they are read in other units."""
    if old is None or (old.sigma, old.scale) != (new.sigma, new.scale):
        return 0
    return preprocessing.count_unaffected_medians(prefix_length, preprocessing.CLIP_REACH)


def _update_partitions(
    previous: Sequence[Partition], preprocessed: Sequence[PreprocessedSeries], reusable: Sequence[int]
) -> list[Partition]:
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
