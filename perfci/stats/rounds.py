"""Rounds of one session: take the machine's mood out, then find where along the line of commits the level moves.

Every round visits every commit once in random order, so a commit's level and the machine's mood are separate things:
processes that ran next to each other in time share the mood, processes of one commit share the level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfci.stats.location import MAD_TO_SIGMA, Floats

Ints = NDArray[np.int64]

REACHES = (2, 4, 8)
"""Neighbours in time on either side that may tell the mood; the one that predicts best is taken, or none."""

PASSES = 4
"""Levels and mood are estimated in turn (backfitting, Breiman & Friedman 1985); they settle within a few turns."""

WORTHWHILE = 0.95
"""The mood is taken out only if that leaves at least 5 % less spread: a quiet machine has none."""

MAX_SENSITIVITY = 2.0
"""No series answers a mood more than twice as strongly as the typical one beside it."""

HEAVY_SIGMAS = 3.0
"""Standardised residuals are cut here before they vote on the mood: one hiccup is no mood."""


def without_mood(values: Floats, cells: Ints, kinds: Ints) -> Floats:
    """Values in order of measurement, less the mood their neighbours in time tell of.

    ``cells`` names the (series, commit) a value belongs to, ``kinds`` its series. Levels are kept: only what moves
    along the time axis goes.
    """
    best, spread = values, WORTHWHILE * _spread(values, cells, kinds)
    for reach in REACHES:
        if len(values) < 4 * reach:
            continue
        cleaned = _backfitted(values, cells, kinds, reach)
        left = _spread(cleaned, cells, kinds)
        if left < spread:
            best, spread = cleaned, left
    return best


def _backfitted(values: Floats, cells: Ints, kinds: Ints, reach: int) -> Floats:
    mood = np.zeros(len(values))
    for _ in range(PASSES):
        residuals = values - _by_group(values - mood, cells)
        scaled = np.clip(residuals / _scales(residuals, kinds), -HEAVY_SIGMAS, HEAVY_SIGMAS)
        shared = neighbour_mean(scaled, cells, reach)
        mood = shared * _sensitivity(shared, residuals, kinds)
    return values - mood


def neighbour_mean(scaled: Floats, cells: Ints, reach: int) -> Floats:
    """Mean over the neighbours in time, itself and its own cell left out, so that no value explains itself away."""
    total, count = np.zeros(len(scaled)), np.zeros(len(scaled))
    for lag in range(1, reach + 1):
        foreign = cells[lag:] != cells[:-lag]
        total[lag:] += np.where(foreign, scaled[:-lag], 0.0)
        count[lag:] += foreign
        total[:-lag] += np.where(foreign, scaled[lag:], 0.0)
        count[:-lag] += foreign
    return np.asarray(total / np.maximum(count, 1))


def _sensitivity(shared: Floats, residuals: Floats, kinds: Ints) -> Floats:
    """How strongly each series answers the mood: least squares through the origin, on residuals cut at 3 sigma."""
    answer = np.zeros(len(shared))
    for kind in np.unique(kinds):
        mine = kinds == kind
        scale = _scale(residuals[mine])
        cut = np.clip(residuals[mine], -HEAVY_SIGMAS * scale, HEAVY_SIGMAS * scale)
        slope = float(shared[mine] @ cut) / max(float(shared[mine] @ shared[mine]), 1e-12)
        answer[mine] = min(max(slope, 0.0), MAX_SENSITIVITY * scale)
    return answer


def _spread(values: Floats, cells: Ints, kinds: Ints) -> float:
    """Geometric mean over the series of what scatters around the cells' levels."""
    residuals = values - _by_group(values, cells)
    return math.exp(float(np.mean([math.log(_scale(residuals[kinds == kind])) for kind in np.unique(kinds)])))


def _scales(residuals: Floats, kinds: Ints) -> Floats:
    scales = np.ones(len(residuals))
    for kind in np.unique(kinds):
        scales[kinds == kind] = _scale(residuals[kinds == kind])
    return scales


def _scale(residuals: Floats) -> float:
    """Root mean square with the tails cut at three robust sigmas, so that ties do not make it zero."""
    rough = max(MAD_TO_SIGMA * float(np.median(np.abs(residuals))), 1e-4)
    return max(float(np.sqrt((np.clip(residuals, -3 * rough, 3 * rough) ** 2).mean())), 1e-4)


def _by_group(values: Floats, groups: Ints) -> Floats:
    """The median of each value's group."""
    middle = np.zeros(len(values))
    order = np.argsort(groups, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        middle[members] = np.median(values[members])
    return middle


@dataclass(frozen=True, slots=True)
class Ladder:
    """Levels of the commits of a line, in order, with the standard error of each; NaN where nothing was measured."""

    levels: Floats
    errors: Floats
    sd: float
    df: float


def ladder(commits: Sequence[Floats]) -> Ladder:
    """A level per commit from its cleaned values; the spread is pooled, for all commits share one machine.

    The level is the mean cut at three pooled sigmas from the median (Huber 1964), which keeps nearly all of the
    mean's precision and is not moved by a hiccup.
    """
    residuals = np.concatenate([side - np.median(side) for side in commits if len(side) > 1] or [np.zeros(1)])
    known = sum(len(side) - 1 for side in commits if len(side) > 1)
    shrink = math.sqrt(len(residuals) / max(known, 1))
    sd = max(_scale(residuals) * shrink, 5e-4)
    levels = np.array([_huber(side, sd) if len(side) else math.nan for side in commits])
    errors = np.array([sd / math.sqrt(len(side)) if len(side) else math.nan for side in commits])
    return Ladder(levels, errors, sd, float(known))


def _huber(side: Floats, sd: float) -> float:
    centre = float(np.median(side))
    for _ in range(5):
        centre += float(np.clip(side - centre, -1.5 * sd, 1.5 * sd).mean())
    return centre


@dataclass(frozen=True, slots=True)
class Move:
    """Between commits ``at - 1`` and ``at`` the level moves by ``size``, as seen between ``start`` and ``end``."""

    at: int
    size: float
    error: float
    start: int
    end: int

    @property
    def sigmas(self) -> float:
        return self.size / self.error


def moves(steps: Ladder, *, penalty: float) -> list[Move]:
    """Where the level moves: exact weighted least squares with a penalty per move (Jackson et al. 2005).

    Each move is then measured between the segments it separates, of which up to ``REACH`` commits a side count.
    """
    line = _present(steps)
    if len(line.levels) < 2:
        return []
    edges = _partition(line, penalty)
    return [_measured(line, *edges[k : k + 3]) for k in range(len(edges) - 2)]


def rivals(steps: Ladder, move: Move) -> list[Move]:
    """The places next to a move that explain the levels nearly as well: within the 95 % likelihood region."""
    line = _present(steps)
    first, at, last = (int(np.searchsorted(line.places, place)) for place in (move.start, move.at, move.end))
    best = _misfit(line, first, at, last)
    near = [place for place in (at - 1, at + 1) if first < place < last]
    return [_measured(line, first, place, last) for place in near if _misfit(line, first, place, last) - best < CLOSE]


REACH = 3
"""Commits a side that speak for a move: levels persist, but a machine's line of commits may creep."""

CLOSE = 3.84
"""Twice the log likelihood a place may lack: the 95 % quantile of chi-square with one degree of freedom."""


@dataclass(frozen=True, slots=True)
class _Line:
    """The measured commits alone; ``places`` are their positions on the line."""

    levels: Floats
    weights: Floats
    places: Ints


def _present(steps: Ladder) -> _Line:
    there = np.flatnonzero(np.isfinite(steps.levels))
    return _Line(steps.levels[there], 1 / steps.errors[there] ** 2, there)


def _partition(line: _Line, penalty: float) -> list[int]:
    count = len(line.levels)
    best, came_from = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=int)
    best[0] = -penalty
    for end in range(1, count + 1):
        costs = [best[start] + _cost(line, start, end) + penalty for start in range(end)]
        came_from[end] = int(np.argmin(costs))
        best[end] = costs[came_from[end]]
    edges = [count]
    while edges[-1] > 0:
        edges.append(int(came_from[edges[-1]]))
    return edges[::-1]


def _cost(line: _Line, start: int, end: int) -> float:
    weights, levels = line.weights[start:end], line.levels[start:end]
    return float((weights * (levels - np.average(levels, weights=weights)) ** 2).sum())


def _misfit(line: _Line, start: int, at: int, end: int) -> float:
    return _cost(line, start, at) + _cost(line, at, end)


def _measured(line: _Line, start: int, at: int, end: int) -> Move:
    before, after = slice(max(start, at - REACH), at), slice(at, min(end, at + REACH))
    means = [float(np.average(line.levels[side], weights=line.weights[side])) for side in (before, after)]
    error = math.sqrt(sum(1 / float(line.weights[side].sum()) for side in (before, after)))
    first, last = int(line.places[start]), int(line.places[end - 1]) + 1
    return Move(int(line.places[at]), means[1] - means[0], error, first, last)
