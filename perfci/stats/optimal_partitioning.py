"""Optimal partitioning: from values to the boundaries that their least-squares partition proposes.

Values become logarithms, their noise is estimated and spikes are clipped. The clipped values in
units of the noise are partitioned into segments of constant level, exactly (Jackson et al. 2005).
With S their cumulative sums, the cost F of the best partition of the first t points is

    F(t) = min over s <= t - 3 of  F(s) - (S(t) - S(s))^2 / (t - s) + [s > 0] p(t),    F(0) = 0

where p(t) = 6 log(max(t, 150)); the sum of squares common to all partitions is left out. F(t)
depends on the first t points only, so a grown series continues at its first new point.

Series of equal length are processed as the rows of one array. Every number depends on its own row
only, by the same operations whatever the batch and wherever an update starts: so an update of a
grown series gives exactly the numbers of a run from scratch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfci.stats.location_estimates import MAD_TO_SIGMA, Floats

CLIP_SIGMAS = 3.0
"""Points further from the running median are clipped to this distance, so that spikes form no level
(Huber 1964)."""

NOISE_REACH, CLIP_REACH = 5, 3
"""Neighbours either side in a running median: spikes of up to five (three) points do not move it."""

MIN_SIGMA = 5e-4
"""Smallest noise assumed of any series: 0.05 %."""

LOG_SIGMA_STEP = 0.1
"""The noise is rounded to a scale with steps of 10 %, so that a new point seldom changes the
clipped values of all others. The error of at most 5 % equals that of a median absolute deviation of
500 points (1.16 / sqrt(n))."""

ROWS_PER_BATCH = 64
"""Series per batch: enough to amortise a numpy call, few enough to stay in the cache."""

MIN_SEGMENT_POINTS = 3
"""Shortest segment; one or two points are a spike (docs/design/statistics.md)."""

PENALTY_FACTOR = 6.0
"""A boundary must gain this times log n in noise variances: twice the 3 log n of the modified BIC
(Zhang & Siegmund 2007), because the noise is only estimated and has heavy tails. n counts the
points up to the next boundary, so later points do not raise the penalty of earlier boundaries."""

MIN_PENALTY_POINTS = 150
"""A shorter series pays the penalty of this length, so that its first levels need as much evidence
as later ones."""


@dataclass(frozen=True, slots=True)
class PreprocessedSeries:
    """One series as log values of shape (n,), the running medians its noise was estimated from, and
    the noise."""

    logs: Floats
    running_medians: Floats
    sigma: float
    scale: float
    """Divisor of values that have no logarithm; 0 where they have one."""


def preprocess_series(
    values: Sequence[Floats], previous: Sequence[tuple[PreprocessedSeries | None, int]]
) -> list[PreprocessedSeries]:
    """Preprocess series of at least eight points each.

    The noise is that from point to point, which neither steps nor spikes inflate: the larger of
    1.4826 median |x[i + 1] - x[i]| / sqrt(2) and 1.4826 MAD around the running median, rounded to the
    scale of ``LOG_SIGMA_STEP``.

    ``previous[k]`` is the earlier result for series k, if any, and how many leading points are
    equal.
    """
    logs, scales, prefixes = [], [], []
    for row, (series, equal_points) in zip(values, previous, strict=True):
        scale = 0.0
        if not (row > 0).all():
            # a difference of values with zeros or negatives still reads as a share of their typical size
            sizes = np.abs(row)
            scale = float(np.median(sizes)) or float(sizes.max()) or 1.0
        logs.append(row / scale if scale else np.log(row))
        scales.append(scale)
        prefixes.append(equal_points if series is not None and series.scale == scale else 0)
    results: dict[int, PreprocessedSeries] = {}
    for batch in batch_indices_by_key(
        [(len(row), prefix) for row, prefix in zip(logs, prefixes, strict=True)]
    ):
        rows = np.stack([logs[k] for k in batch])
        medians = running_median(rows, NOISE_REACH, prefixes[batch[0]])
        if reused := rows.shape[1] - medians.shape[1]:
            copied = [
                series.running_medians[:reused] for k in batch if (series := previous[k][0]) is not None
            ]
            medians = np.hstack([np.stack(copied), medians])
        steps, residuals = rows[:, 1:] - rows[:, :-1], rows - medians
        difference_sigma = MAD_TO_SIGMA * _row_medians(np.abs(steps, out=steps)) / math.sqrt(2)
        residuals -= _row_medians(residuals)[:, None]
        spread_sigma = MAD_TO_SIGMA * _row_medians(np.abs(residuals, out=residuals))
        excess = np.maximum(np.maximum(difference_sigma, spread_sigma) / MIN_SIGMA, 1.0)
        sigmas = MIN_SIGMA * np.exp(LOG_SIGMA_STEP * np.rint(np.log(excess) / LOG_SIGMA_STEP))
        for place, k in enumerate(batch):
            results[k] = PreprocessedSeries(rows[place], medians[place], float(sigmas[place]), scales[k])
    return [results[k] for k in range(len(logs))]


def batch_indices_by_key(keys: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Indices grouped by key, in the order of the keys, at most ``ROWS_PER_BATCH`` to a group."""
    places_by_key: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places_by_key[key].append(place)
    return [
        places[k : k + ROWS_PER_BATCH]
        for _, places in sorted(places_by_key.items())
        for k in range(0, len(places), ROWS_PER_BATCH)
    ]


def _row_medians(rows: Floats) -> Floats:
    """Median of every row, whose order is destroyed: six times as fast as ``np.median``, which
    copies."""
    half, odd = divmod(rows.shape[1], 2)
    rows.partition(half, axis=1)
    return rows[:, half].copy() if odd else (rows[:, :half].max(axis=1) + rows[:, half]) / 2


def running_median(rows: Floats, reach: int, unchanged_points: int) -> Floats:
    """Median of each point with its ``reach`` neighbours on either side, ends mirrored.

    The medians of leading points that see ``unchanged_points`` only are left out: their number is what
    the result is shorter by.
    """
    first = unchanged_points - reach if unchanged_points >= 2 * reach else 0
    before = rows[:, reach:0:-1] if first == 0 else rows[:, first - reach : first]
    padded = np.hstack([before, rows[:, first:], rows[:, -2 : -reach - 2 : -1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=1)
    return np.asarray(np.partition(windows, reach, axis=-1)[..., reach])


def clip_spikes(series: Sequence[PreprocessedSeries], unchanged_points: Sequence[int]) -> list[Floats]:
    """Clipped values of each series in units of its noise, without the leading ones that its
    ``unchanged_points`` determine."""
    results: dict[int, Floats] = {}
    keys = [(len(line.logs), points) for line, points in zip(series, unchanged_points, strict=True)]
    for batch in batch_indices_by_key(keys):
        logs = np.stack([series[k].logs for k in batch])
        sigmas = np.array([[series[k].sigma] for k in batch])
        medians, reach = running_median(logs, CLIP_REACH, unchanged_points[batch[0]]), CLIP_SIGMAS * sigmas
        clipped = np.clip(logs[:, -medians.shape[1] :], medians - reach, medians + reach)
        results |= zip(batch, (clipped - logs[:, :1]) / sigmas, strict=True)
    return [results[k] for k in range(len(series))]


@dataclass(frozen=True, slots=True)
class Partition:
    """Best partitions of the first k points of a series for k = 0..n; all arrays have shape (n +
    1,)."""

    cumulative_sums: Floats
    """Sums of the first k values."""
    costs: Floats
    """F(k): cost of the best partition, less the sum of squares."""
    last_segment_starts: NDArray[np.int32]
    """First point of the last segment of that partition."""

    @property
    def boundaries(self) -> list[int]:
        """Boundaries of the best partition of all points, ascending."""
        starts, end = [], len(self.last_segment_starts) - 1
        while (end := int(self.last_segment_starts[end])) > 0:
            starts.append(end)
        return starts[::-1]


EMPTY_PARTITION = Partition(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int32))
"""The partition of no points, from which every series starts."""


def extend_partitions(partitions: Sequence[Partition], new_points: Sequence[Floats]) -> list[Partition]:
    """Extend each partition by new points in units of the noise; series of similar length share a
    batch."""
    order = sorted(
        range(len(partitions)), key=lambda row: (len(partitions[row].cumulative_sums), len(new_points[row]))
    )
    results: dict[int, Partition] = {}
    for begin in range(0, len(order), ROWS_PER_BATCH):
        block = order[begin : begin + ROWS_PER_BATCH]
        sizes = {row: len(partitions[row].cumulative_sums) + len(new_points[row]) for row in block}
        sums, costs = np.zeros((2, len(block), max(sizes.values())))
        starts = np.zeros(sums.shape, dtype=np.int32)
        for place, row in enumerate(block):
            old = partitions[row]
            size = len(old.cumulative_sums)
            sums[place, :size], costs[place, :size] = old.cumulative_sums, old.costs
            starts[place, :size] = old.last_segment_starts
            new_sums = np.cumsum(np.concatenate([old.cumulative_sums[-1:], new_points[row]]))
            sums[place, size - 1 : sizes[row]] = new_sums
        # where partitions end at different points, the common part is computed again, with the same result
        _fill_costs(sums, costs, starts, min(len(partitions[row].cumulative_sums) for row in block))
        # a shorter series is read off earlier
        for place, row in enumerate(block):
            n = sizes[row]
            results[row] = Partition(
                sums[place, :n].copy(), costs[place, :n].copy(), starts[place, :n].copy()
            )
    return [results[row] for row in range(len(partitions))]


def _fill_costs(
    cumulative_sums: Floats, costs: Floats, last_segment_starts: NDArray[np.int32], first: int
) -> None:
    """Fill costs and last segment starts of shape (rows, n + 1) from column ``first`` on, in place."""
    series_count, size = cumulative_sums.shape
    # buffers are reused for every column: allocating them took a third of the time
    shares, rows, room = 1 / np.arange(size, 0, -1.0), np.arange(series_count), np.empty(series_count * size)
    costs[:, 1:MIN_SEGMENT_POINTS] = np.inf
    for end in range(max(first, MIN_SEGMENT_POINTS), size):
        penalty = PENALTY_FACTOR * math.log(max(end, MIN_PENALTY_POINTS))
        starts = end - MIN_SEGMENT_POINTS + 1
        flat = room[: series_count * starts]
        cost = flat.reshape(series_count, starts)
        np.subtract(cumulative_sums[:, end, None], cumulative_sums[:, :starts], out=cost)
        np.multiply(flat, flat, out=flat)
        np.multiply(cost, shares[size - end : size - end + starts], out=cost)
        np.subtract(costs[:, :starts], cost, out=cost)
        cost[:, 0] -= penalty  # the first segment begins at no boundary
        choice = cost.argmin(axis=1)
        last_segment_starts[:, end] = choice
        costs[:, end] = cost[rows, choice] + penalty
