"""Where the level of a line of numbers moves: robust exact segmentation of logs, then proof for every boundary.

Segmentation proposes: least squares on winsorised logs, solved exactly (Jackson et al. 2005), with a penalty in units
of the noise. Proof disposes: a boundary stays only when the step is large enough for the user, significant for the
noise, separated in ranks, and no mere hop of a machine that keeps returning to the same states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perfci.stats.location import MAD_TO_SIGMA, Floats
from perfci.stats.ranks import separation

MIN_POINTS = 8
"""A shorter history gets no verdict (DESIGN 6): three points a side leave nothing to tell noise from level."""

MIN_SEGMENT = 3
"""A level is at least three points long; one or two are a spike (study, 6.2)."""

PENALTY = 6.0
"""A boundary must gain this times log n in noise variances: twice the 3 log n of the modified BIC
(Zhang & Siegmund 2007), because the noise is only estimated and has heavy tails."""

CLIP_SIGMAS = 3.0
"""Points further from the running median are pulled in to this distance (Huber 1964), so that spikes build no level."""

Z_LONG, Z_SHORT, SHORT = 4.0, 6.0, 5
"""Sigmas a step must stand out; more where a side has fewer than five points, whose noise is hardly known.
Fewer than five points at the very beginning are no level to depart from, and there is no hurry to tell."""

NO_PROOF = 0.5
"""The proof of a boundary that is ruled out: it goes before those that nearly pass."""

MIN_SEPARATION = 0.85
"""Share of (before, after) pairs in the order of the step (study, 6.2)."""

NEAREST, FARTHEST = 15, 40
"""A boundary is judged on this many points either side: what lies further back is another time."""

LONG, CORE = 15, 0.75
"""From this many points a side its share of spikes is known; the quarter furthest out may then be spikes."""

FINEST_SIGMA = 5e-4
"""No series is believed to be quieter than 0.05 %."""

BLOCK = 64
"""Series solved together: enough to amortise the loop, few enough to stay in the cache."""


@dataclass(frozen=True, slots=True)
class Step:
    """The level moves at ``index``, the first point of the new level, by the log ratio ``size``."""

    index: int
    size: float


def detect(values: Sequence[float], min_effect: float = 0.05) -> list[tuple[int, float]]:
    """The (index, after/before - 1) of every lasting move of at least ``min_effect``; 0 means every move."""
    return detect_many([values], min_effect)[0]


def detect_many(series: Sequence[Sequence[float]], min_effect: float = 0.05) -> list[list[tuple[int, float]]]:
    """The same for many series at once; each stands alone, together they are only faster."""
    lines = [Line.of(values) for values in series]
    long_enough = [line for line in lines if line.points >= MIN_POINTS]
    boundaries = segment([line.clipped / line.sigma for line in long_enough])
    proposed = dict(zip(map(id, long_enough), boundaries, strict=True))
    return [
        [(step.index, math.expm1(step.size)) for step in prove(line, proposed.get(id(line), []), min_effect)]
        for line in lines
    ]


@dataclass(frozen=True, slots=True)
class Line:
    """One series as logs, with its noise and a copy whose spikes are pulled in."""

    logs: Floats
    clipped: Floats
    sigma: float

    @property
    def points(self) -> int:
        return len(self.logs)

    @classmethod
    def of(cls, values: Sequence[float]) -> Line:
        raw = np.asarray(values, dtype=float)
        logs = np.log(raw) if (raw > 0).all() else _linear(raw)
        if len(logs) < MIN_POINTS:
            return cls(logs, logs, FINEST_SIGMA)
        sigma = noise(logs)
        middle = running_median(logs, 3)
        clipped = np.clip(logs, middle - CLIP_SIGMAS * sigma, middle + CLIP_SIGMAS * sigma)
        return cls(logs, clipped, sigma)


def noise(logs: Floats) -> float:
    """Point-to-point noise that neither steps nor spikes inflate: from differences, and around a running median."""
    differences = MAD_TO_SIGMA * float(np.median(np.abs(np.diff(logs)))) / math.sqrt(2)
    rest = logs - running_median(logs, 5)
    around = MAD_TO_SIGMA * float(np.median(np.abs(rest - np.median(rest))))
    return max(differences, around, FINEST_SIGMA)


def running_median(values: Floats, reach: int) -> Floats:
    """The median of each point and its ``reach`` neighbours on either side, the ends mirrored."""
    mode: Literal["reflect", "edge"] = "reflect" if len(values) > reach else "edge"
    padded = np.pad(values, reach, mode=mode)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    return np.asarray(np.median(windows, axis=1))


def segment(scaled: Sequence[Floats]) -> list[list[int]]:
    """Boundaries of the penalised least-squares segmentation of each line, whose noise has been scaled to 1."""
    by_length = sorted(range(len(scaled)), key=lambda row: len(scaled[row]))
    found: list[list[int]] = [[] for _ in scaled]
    for start in range(0, len(by_length), BLOCK):
        block = by_length[start : start + BLOCK]
        for row, boundaries in zip(block, _solve([scaled[row] for row in block]), strict=True):
            found[row] = boundaries
    return found


def _solve(lines: Sequence[Floats]) -> list[list[int]]:
    """Optimal partitioning (Jackson et al. 2005), a block of lines in step; a shorter line just reads off earlier."""
    longest = max(len(line) for line in lines)
    sums, squares = _cumulative(lines, longest)
    penalty = PENALTY * np.log([len(line) for line in lines])
    best = np.full((len(lines), longest + 1), np.inf)
    best[:, 0] = -penalty
    came_from = np.zeros((len(lines), longest + 1), dtype=np.int64)
    for end in range(MIN_SEGMENT, longest + 1):
        starts = end - MIN_SEGMENT + 1
        lengths = end - np.arange(starts)
        cost = best[:, :starts] + (squares[:, end, None] - squares[:, :starts])
        cost -= (sums[:, end, None] - sums[:, :starts]) ** 2 / lengths
        choice = cost.argmin(axis=1)
        came_from[:, end] = choice
        best[:, end] = cost[np.arange(len(lines)), choice] + penalty
    return [_trace(came_from[row], len(line)) for row, line in enumerate(lines)]


def _cumulative(lines: Sequence[Floats], longest: int) -> tuple[Floats, Floats]:
    sums, squares = np.zeros((2, len(lines), longest + 1))
    for row, line in enumerate(lines):
        centred = line - line.mean()
        sums[row, 1 : len(line) + 1] = np.cumsum(centred)
        squares[row, 1 : len(line) + 1] = np.cumsum(centred**2)
    return sums, squares


def _trace(came_from: np.ndarray, end: int) -> list[int]:
    boundaries = []
    while (end := int(came_from[end])) > 0:
        boundaries.append(end)
    return boundaries[::-1]


def prove(line: Line, proposed: Sequence[int], min_effect: float) -> list[Step]:
    """Drop the least proven boundary until every one left is proven; its neighbours are judged anew each time."""
    kept = list(proposed)
    while kept:
        inflation = _inflation(line, kept)
        edges = [0, *kept, line.points]
        proofs = [_proof(line, (edges[k], edges[k + 1], edges[k + 2]), inflation, min_effect) for k in range(len(kept))]
        weakest = min(range(len(kept)), key=lambda k: proofs[k][0])
        if proofs[weakest][0] >= 1:
            return [Step(index, size) for index, (_, size) in zip(kept, proofs, strict=True)]
        del kept[weakest]
    return []


def _proof(line: Line, edges: tuple[int, int, int], inflation: float, min_effect: float) -> tuple[float, float]:
    """How well a boundary is proven by the points on both its sides (1 is enough), and its size."""
    start, at, end = edges
    reach = _reach(line.sigma, min_effect)
    size = float(np.median(line.logs[at : min(end, at + reach)]) - np.median(line.logs[max(start, at - reach) : at]))
    before, after = line.logs[max(start, at - FARTHEST) : at], line.logs[at : min(end, at + FARTHEST)]
    needed = Z_SHORT if min(len(before), len(after)) < SHORT else Z_LONG
    proof = min(
        abs(size) / math.log1p(min_effect) if min_effect else math.inf,
        abs(size) / (_error(before, after, line.sigma) * math.sqrt(inflation)) / needed,
        _separation(before, after) / MIN_SEPARATION,
    )
    if start == 0 and at < SHORT:
        return NO_PROOF, size
    hop = proof >= 1 and min_effect > 0 and _is_hop(line.logs, at, float(np.median(before)), float(np.median(after)))
    return (NO_PROOF if hop else proof), size


def _reach(sigma: float, min_effect: float) -> int:
    """How many points either side speak for a boundary: as few as the noise allows, for levels also creep.

    Enough that the standard error of the difference of two medians is a tenth of the bar.
    """
    if not min_effect:
        return FARTHEST
    needed = 2 * (10 * MEDIAN_ERROR * sigma / math.log1p(min_effect)) ** 2
    return int(min(max(needed, NEAREST), FARTHEST))


def _separation(before: Floats, after: Floats) -> float:
    """Rank separation; of long sides also that of their cores, so that a share of spikes does not hide a step."""
    whole = separation(before, after)
    if min(len(before), len(after)) < LONG or whole >= MIN_SEPARATION:
        return whole
    return max(whole, separation(_core(before), _core(after)))


def _core(side: Floats) -> Floats:
    """The three quarters nearest to the median."""
    distance = np.abs(side - np.median(side))
    return np.asarray(side[distance <= np.quantile(distance, CORE)])


MEDIAN_ERROR = 1.2533
"""Standard error of a median against that of a mean in normal data: sqrt(pi / 2)."""


def _error(before: Floats, after: Floats, sigma: float) -> float:
    """Standard error of the difference of two medians; a lucky quiet side counts at least half the series' noise."""
    shares = [max(_mad(side), sigma / 2) ** 2 / len(side) for side in (before, after)]
    return MEDIAN_ERROR * math.sqrt(sum(shares))


def _mad(side: Floats) -> float:
    return MAD_TO_SIGMA * float(np.median(np.abs(side - np.median(side))))


def _inflation(line: Line, boundaries: Sequence[int]) -> float:
    """Neighbouring points that resemble each other count less: (1 + r) / (1 - r) of a first-order process."""
    if line.points <= 20:
        return 1.0
    parts = np.split(line.clipped, list(boundaries))
    rest = np.concatenate([part - np.median(part) for part in parts])
    r = float((rest[1:] * rest[:-1]).mean() / max(float((rest**2).mean()), 1e-12))
    r = min(max(r, 0.0), 0.6)
    return (1 + r) / (1 - r)


HOP_WINDOW, HOP_RUNS = 150, 5
"""Five stays in turn at the old and the new level within 150 points either side are a machine's states, no change."""


def _is_hop(logs: Floats, at: int, old: float, new: float) -> bool:
    """Whether the boundary is one more hop between two states the machine keeps returning to.

    A stay clearly longer than all others at its level is a new level after all.
    """
    first, last = max(0, at - HOP_WINDOW), min(len(logs), at + HOP_WINDOW)
    stays = _stays(logs[first:last], old, new)
    if len(stays) < HOP_RUNS or sum(start < at - first for start, _, _ in stays) < 2:
        return False
    this = next((k for k, (start, end, there) in enumerate(stays) if there and end > at - first), len(stays) - 1)
    others = [end - start for k, (start, end, there) in enumerate(stays) if there and k != this]
    return stays[this][1] - stays[this][0] < max(3 * max(others, default=0), 20)


def _stays(logs: Floats, old: float, new: float) -> list[tuple[int, int, bool]]:
    """Stays in turn at the old (False) and the new (True) level, as (start, end, which); one point is no stay."""
    near = abs(new - old) / 3
    places = np.flatnonzero((np.abs(logs - new) < near) | (np.abs(logs - old) < near))
    which = np.abs(logs[places] - new) < near
    long_enough = np.concatenate([run for run in _runs(which) if len(run) > 1] or [np.empty(0, dtype=int)])
    places, which = places[long_enough], which[long_enough]
    return [(int(places[run[0]]), int(places[run[-1]]) + 1, bool(which[run[0]])) for run in _runs(which)]


def _runs(which: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Positions of each stretch of equal values."""
    if not len(which):
        return []
    return np.split(np.arange(len(which)), np.flatnonzero(np.diff(which)) + 1)


def _linear(raw: Floats) -> Floats:
    """Zeros have no logarithm: scale by the typical value, so that a share of it still reads as a share."""
    typical = float(np.median(np.abs(raw))) or float(np.abs(raw).max()) or 1.0
    return raw / typical
