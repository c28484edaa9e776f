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

FINEST_SIGMA = 5e-4
"""No series is believed to be quieter than 0.05 %."""

SIGMA_STEP = 0.1
"""The noise is read off a scale whose marks are 10 % apart, so that a new point seldom changes what it was for all the
others. The 5 % this is off at most is what a median absolute deviation of 500 points is off (1.16 / sqrt n)."""


BLOCK = 64
"""Lines looked at together: enough to amortise what a call costs, few enough to stay in the cache."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line as logs, the running median its noise was read from, and that noise."""

    logs: Floats
    middles: Floats
    sigma: float
    unit: float
    """What the values were divided by where they have no logarithms; 0 where they have."""

    @property
    def points(self) -> int:
        return len(self.logs)


def read(values: Sequence[Floats], known: Sequence[tuple[Line | None, int]]) -> list[Line]:
    """The lines of such values, each of at least eight; of a line that is known, so many first points are the same."""
    rows = [_logs(one) for one in values]
    same = [_unmoved(known[k], unit) for k, (_, unit) in enumerate(rows)]
    lines: dict[int, Line] = {}
    for together in alike([(len(logs), same[k]) for k, (logs, _) in enumerate(rows)]):
        logs = np.stack([rows[k][0] for k in together])
        middles = _middles(logs, [known[k][0] for k in together], same[together[0]])
        for row, (k, sigma) in enumerate(zip(together, noise(logs, middles), strict=True)):
            lines[k] = Line(logs[row], middles[row], float(sigma), rows[k][1])
    return [lines[k] for k in range(len(rows))]


def alike(keys: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Places with one key together, in the order of the keys, and no more than stay in the cache."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        found[key].append(place)
    return [places[k : k + BLOCK] for _, places in sorted(found.items()) for k in range(0, len(places), BLOCK)]


def _logs(values: Floats) -> tuple[Floats, float]:
    """Zeros have no logarithm: scale by the typical value, so that a share of it still reads as a share."""
    if (values > 0).all():
        return np.log(values), 0.0
    size = np.abs(values)
    unit = float(np.median(size)) or float(size.max()) or 1.0
    return values / unit, unit


def _unmoved(known: tuple[Line | None, int], unit: float) -> int:
    line, same = known
    return same if line is not None and line.unit == unit else 0


def _middles(logs: Floats, known: Sequence[Line | None], same: int) -> Floats:
    """Running medians; those that no new point is near to are known."""
    first = untouched(same, NOISE_REACH)
    fresh = running_median(logs, NOISE_REACH, first)
    if not first:
        return fresh
    return np.hstack([np.stack([line.middles[:first] for line in known if line is not None]), fresh])


def noise(logs: Floats, middles: Floats) -> Floats:
    """Point-to-point noise of each row that neither steps nor spikes inflate: from differences, and around a median."""
    steps, rest = logs[:, 1:] - logs[:, :-1], logs - middles
    differences = MAD_TO_SIGMA * _medians(np.abs(steps, out=steps)) / math.sqrt(2)
    rest -= _medians(rest)[:, None]
    around = MAD_TO_SIGMA * _medians(np.abs(rest, out=rest))
    marks = np.rint(np.log(np.maximum(np.maximum(differences, around) / FINEST_SIGMA, 1.0)) / SIGMA_STEP)
    return np.asarray(FINEST_SIGMA * np.exp(SIGMA_STEP * marks))


def _medians(rows: Floats) -> Floats:
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


def untouched(same: int, reach: int) -> int:
    """How many first running medians see only the points that are the same."""
    return same - reach if same >= 2 * reach else 0


def clipped(lines: Sequence[Line], first: int) -> Floats:
    """Each line from ``first`` on in units of its noise, spikes pulled in; the lines are equally long."""
    logs, sigmas = np.stack([line.logs for line in lines]), np.array([[line.sigma] for line in lines])
    middles, reach = running_median(logs, CLIP_REACH, first), CLIP_SIGMAS * sigmas
    pulled = np.clip(logs[:, first:], middles - reach, middles + reach)
    return np.asarray((pulled - logs[:, :1]) / sigmas)
