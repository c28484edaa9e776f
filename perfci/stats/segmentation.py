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
"""Sigmas a step must stand out; more where a side has fewer than five points, whose noise is hardly known."""

MIN_SEPARATION = 0.85
"""Share of (before, after) pairs in the order of the step (study, 6.2)."""

NEAR = 40
"""A boundary is judged on this many points either side: what lies further back is another time."""

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
    """How well a boundary is proven (1 is enough) and its size."""
    start, at, end = edges
    before, after = line.logs[max(start, at - NEAR) : at], line.logs[at : min(end, at + NEAR)]
    size = float(np.median(after) - np.median(before))
    needed = Z_SHORT if min(at - start, end - at) < SHORT else Z_LONG
    score = min(
        abs(size) / math.log1p(min_effect) if min_effect else math.inf,
        abs(size) / (_error(before, after, line.sigma) * math.sqrt(inflation)) / needed,
        separation(before, after) / MIN_SEPARATION,
    )
    if score >= 1 and min_effect and _is_hop(line.logs, start, at, end):
        return 0.5, size
    return score, size


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


HOP_WINDOW, HOP_RUN, MANY_HOPS = 80, 15, 5
"""Around a boundary: within 80 points, five visits of at most 15 points to two levels are a machine changing states."""


def _is_hop(logs: Floats, start: int, at: int, end: int) -> bool:
    """Whether the boundary is one more hop between two states the machine keeps returning to.

    A visit clearly longer than all others of its state is a new level after all.
    """
    low, high = float(np.median(logs[start:at])), float(np.median(logs[at:end]))
    first, last = max(0, at - HOP_WINDOW), min(len(logs), at + HOP_WINDOW)
    nearer_new = (np.abs(logs[first:last] - high) < np.abs(logs[first:last] - low)).astype(int)
    nearer_new[1:-1] = np.median(np.stack([nearer_new[:-2], nearer_new[1:-1], nearer_new[2:]]), axis=0)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(nearer_new)) + 1, [len(nearer_new)]])
    visits = np.diff(edges)
    if np.count_nonzero(visits <= HOP_RUN) < MANY_HOPS:
        return False
    this = min(int(np.searchsorted(edges, at - first, side="right")) - 1, len(visits) - 1)
    others = [visits[k] for k in range(len(visits)) if k != this and nearer_new[edges[k]] == nearer_new[edges[this]]]
    return not others or bool(visits[this] < max(3 * max(others), 20))


def _linear(raw: Floats) -> Floats:
    """Zeros have no logarithm: scale by the typical value, so that a share of it still reads as a share."""
    typical = float(np.median(np.abs(raw))) or float(np.abs(raw).max()) or 1.0
    return raw / typical
