"""Lines of numbers made ready to be segmented: as logs, with their noise, and with their spikes pulled in.

Everything here is looked at in rows of equal lines, and every number depends on its own line only, in the same order
of operations however many rows there are and wherever a look begins: that is what lets a line be looked at again from
its first new point on (``growing``) and come to the very same numbers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import MAD_TO_SIGMA, Floats

CLIP_SIGMAS = 3.0
"""Points further from the running median are pulled in to this distance (Huber 1964), so that spikes build no level."""

NOISE_REACH, CLIP_REACH = 5, 3
"""Neighbours either side of a running median: a spike of up to five (three) points does not move it."""

MIN_SIGMA = 5e-4
"""No series is believed to be quieter than 0.05 %."""

LOG_SIGMA_STEP = 0.1
"""The noise is read off a scale whose marks are 10 % apart, so that a new point seldom changes what it was for all the
others. The 5 % this is off at most is what a median absolute deviation of 500 points is off (1.16 / sqrt n)."""


ROWS_PER_BATCH = 64
"""Lines looked at together: enough to amortise what a call costs, few enough to stay in the cache."""


@dataclass(frozen=True, slots=True)
class PreprocessedSeries:
    """One line as logs, the running median its noise was read from, and that noise."""

    logs: Floats
    running_medians: Floats
    sigma: float
    scale: float
    """What the values were divided by where they have no logarithms; 0 where they have."""

    @property
    def point_count(self) -> int:
        return len(self.logs)


def preprocess_series(
    values: Sequence[Floats], previous: Sequence[tuple[PreprocessedSeries | None, int]]
) -> list[PreprocessedSeries]:
    """The lines of such values, each of at least eight; of a line that is known, so many first points are the same."""
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
    """Places with one key together, in the order of the keys, and no more than stay in the cache."""
    places_by_key: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places_by_key[key].append(place)
    return [
        places[k : k + ROWS_PER_BATCH]
        for _, places in sorted(places_by_key.items())
        for k in range(0, len(places), ROWS_PER_BATCH)
    ]


def _to_logs(values: Floats) -> tuple[Floats, float]:
    """Zeros have no logarithm: scale by the typical value, so that a share of it still reads as a share."""
    if (values > 0).all():
        return np.log(values), 0.0
    size = np.abs(values)
    unit = float(np.median(size)) or float(size.max()) or 1.0
    return values / unit, unit


def _prefix_in_same_scale(previous: tuple[PreprocessedSeries | None, int], scale: float) -> int:
    series, prefix = previous
    return prefix if series is not None and series.scale == scale else 0


def _update_running_medians(
    logs: Floats, previous: Sequence[PreprocessedSeries | None], prefix_length: int
) -> Floats:
    """Running medians; those that no new point is near to are known."""
    first = count_unaffected_medians(prefix_length, NOISE_REACH)
    fresh = running_median(logs, NOISE_REACH, first)
    if not first:
        return fresh
    return np.hstack(
        [np.stack([series.running_medians[:first] for series in previous if series is not None]), fresh]
    )


def estimate_noise(logs: Floats, running_medians: Floats) -> Floats:
    """Point-to-point noise of each row that neither steps nor spikes inflate: from differences, and around a median."""
    steps, residuals = logs[:, 1:] - logs[:, :-1], logs - running_medians
    difference_sigma = MAD_TO_SIGMA * _row_medians(np.abs(steps, out=steps)) / math.sqrt(2)
    residuals -= _row_medians(residuals)[:, None]
    spread_sigma = MAD_TO_SIGMA * _row_medians(np.abs(residuals, out=residuals))
    marks = np.rint(
        np.log(np.maximum(np.maximum(difference_sigma, spread_sigma) / MIN_SIGMA, 1.0)) / LOG_SIGMA_STEP
    )
    return np.asarray(MIN_SIGMA * np.exp(LOG_SIGMA_STEP * marks))


def _row_medians(rows: Floats) -> Floats:
    """Along every row, which is left in another order: a sixth of what ``np.median`` takes, which copies them."""
    half, odd = divmod(rows.shape[1], 2)
    rows.partition(half, axis=1)
    return rows[:, half].copy() if odd else (rows[:, :half].max(axis=1) + rows[:, half]) / 2


def running_median(rows: Floats, reach: int, first: int = 0) -> Floats:
    """The median of each point from ``first`` on and its ``reach`` neighbours on either side, the ends mirrored."""
    before = rows[:, reach:0:-1] if first == 0 else rows[:, first - reach : first]
    padded = np.hstack([before, rows[:, first:], rows[:, -2 : -reach - 2 : -1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=1)
    return np.asarray(np.partition(windows, reach, axis=-1)[..., reach])


def count_unaffected_medians(prefix_length: int, reach: int) -> int:
    """How many first running medians see only the points that are the same."""
    return prefix_length - reach if prefix_length >= 2 * reach else 0


def clip_spikes(series: Sequence[PreprocessedSeries], first: int) -> Floats:
    """Each line from ``first`` on in units of its noise, spikes pulled in; the lines are equally long."""
    logs, sigmas = np.stack([line.logs for line in series]), np.array([[line.sigma] for line in series])
    medians, reach = running_median(logs, CLIP_REACH, first), CLIP_SIGMAS * sigmas
    clipped = np.clip(logs[:, first:], medians - reach, medians + reach)
    return np.asarray((clipped - logs[:, :1]) / sigmas)
