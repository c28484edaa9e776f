"""Preparation of series for segmentation: log values, noise, clipped spikes.

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

from perfci.stats.location import MAD_TO_SIGMA, Floats

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


@dataclass(frozen=True, slots=True)
class PreprocessedSeries:
    """One series as log values of shape (n,), the running medians its noise was estimated from, and
    the noise."""

    logs: Floats
    running_medians: Floats
    sigma: float
    scale: float
    """Divisor of values that have no logarithm; 0 where they have one."""

    @property
    def point_count(self) -> int:
        return len(self.logs)


def preprocess_series(
    values: Sequence[Floats], previous: Sequence[tuple[PreprocessedSeries | None, int]]
) -> list[PreprocessedSeries]:
    """Preprocess series of at least eight points each.

    ``previous[k]`` is the earlier result for series k, if any, and how many leading points are
    equal.
    """
    rows = [_to_logs(row) for row in values]
    prefixes = [_prefix_in_same_scale(previous[k], unit) for k, (_, unit) in enumerate(rows)]
    results: dict[int, PreprocessedSeries] = {}
    for batch in batch_by_key([(len(logs), prefixes[k]) for k, (logs, _) in enumerate(rows)]):
        logs = np.stack([rows[k][0] for k in batch])
        medians = _update_running_medians(logs, [previous[k][0] for k in batch], prefixes[batch[0]])
        for row, (k, sigma) in enumerate(zip(batch, estimate_noise(logs, medians), strict=True)):
            results[k] = PreprocessedSeries(logs[row], medians[row], float(sigma), rows[k][1])
    return [results[k] for k in range(len(rows))]


def batch_by_key(keys: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Indices grouped by key, in the order of the keys, at most ``ROWS_PER_BATCH`` to a group."""
    places_by_key: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places_by_key[key].append(place)
    return [
        places[k : k + ROWS_PER_BATCH]
        for _, places in sorted(places_by_key.items())
        for k in range(0, len(places), ROWS_PER_BATCH)
    ]


def _to_logs(values: Floats) -> tuple[Floats, float]:
    """Log values and 0; values with zeros or negatives are divided by their typical size instead,
    so that a difference still reads as a share of it."""
    if (values > 0).all():
        return np.log(values), 0.0
    size = np.abs(values)
    unit = float(np.median(size)) or float(size.max()) or 1.0
    return values / unit, unit


def _prefix_in_same_scale(previous: tuple[PreprocessedSeries | None, int], scale: float) -> int:
    """Number of equal leading points, 0 where the scale differs."""
    series, prefix = previous
    return prefix if series is not None and series.scale == scale else 0


def _update_running_medians(
    logs: Floats, previous: Sequence[PreprocessedSeries | None], prefix_length: int
) -> Floats:
    """Running medians of shape (rows, n); those that no new point reaches are copied."""
    first = count_unaffected_medians(prefix_length, NOISE_REACH)
    fresh = running_median(logs, NOISE_REACH, first)
    if not first:
        return fresh
    return np.hstack(
        [np.stack([series.running_medians[:first] for series in previous if series is not None]), fresh]
    )


def estimate_noise(logs: Floats, running_medians: Floats) -> Floats:
    """Point-to-point noise of each row, which neither steps nor spikes inflate; shape (rows,).

    The larger of 1.4826 median |x[i + 1] - x[i]| / sqrt(2) and 1.4826 MAD around the running
    median, rounded to the scale of ``LOG_SIGMA_STEP``.
    """
    steps, residuals = logs[:, 1:] - logs[:, :-1], logs - running_medians
    difference_sigma = MAD_TO_SIGMA * _row_medians(np.abs(steps, out=steps)) / math.sqrt(2)
    residuals -= _row_medians(residuals)[:, None]
    spread_sigma = MAD_TO_SIGMA * _row_medians(np.abs(residuals, out=residuals))
    # rounded to steps of 10 %: a changed noise makes the whole series be computed again
    marks = np.rint(
        np.log(np.maximum(np.maximum(difference_sigma, spread_sigma) / MIN_SIGMA, 1.0)) / LOG_SIGMA_STEP
    )
    return np.asarray(MIN_SIGMA * np.exp(LOG_SIGMA_STEP * marks))


def _row_medians(rows: Floats) -> Floats:
    """Median of every row, whose order is destroyed: six times as fast as ``np.median``, which
    copies."""
    half, odd = divmod(rows.shape[1], 2)
    rows.partition(half, axis=1)
    return rows[:, half].copy() if odd else (rows[:, :half].max(axis=1) + rows[:, half]) / 2


def running_median(rows: Floats, reach: int, first: int = 0) -> Floats:
    """Median of each point from ``first`` on with its ``reach`` neighbours on either side, ends
    mirrored."""
    before = rows[:, reach:0:-1] if first == 0 else rows[:, first - reach : first]
    padded = np.hstack([before, rows[:, first:], rows[:, -2 : -reach - 2 : -1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=1)
    return np.asarray(np.partition(windows, reach, axis=-1)[..., reach])


def count_unaffected_medians(prefix_length: int, reach: int) -> int:
    """Number of leading running medians that see only points of the equal prefix."""
    return prefix_length - reach if prefix_length >= 2 * reach else 0


def clip_spikes(series: Sequence[PreprocessedSeries], first: int) -> Floats:
    """Values from ``first`` on in units of the noise, clipped; shape (rows, n - first), series
    equally long."""
    logs, sigmas = np.stack([line.logs for line in series]), np.array([[line.sigma] for line in series])
    medians, reach = running_median(logs, CLIP_REACH, first), CLIP_SIGMAS * sigmas
    clipped = np.clip(logs[:, first:], medians - reach, medians + reach)
    return np.asarray((clipped - logs[:, :1]) / sigmas)
