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
"""Neighbours in time on either side that may tell the mood; the reach that predicts best is taken, or none."""

PASSES = 6
"""Levels, mood and noise are estimated in turn (backfitting, Breiman & Friedman 1985) until they settle."""

HEAVY_SIGMAS = 3.0
"""Standardised residuals are cut here before they vote on the mood: one hiccup is no mood."""

CALMEST = 0.1
"""The calm machine is the lowest tenth of the moods: neighbours slow a process down, they never speed it up."""

HUBER = 1.5
"""Where a residual stops counting in full (Huber 1964): 96 % of the mean's precision on normal data."""

FINEST_SD = 5e-4
"""No process level is believed to be finer than 0.05 %."""


@dataclass(frozen=True, slots=True)
class Calm:
    """Values without the machine's mood, each with the standard deviation it was measured with."""

    values: Floats
    sds: Floats


def calmed(values: Floats, cells: Ints, kinds: Ints) -> Calm:
    """Take the mood out of values in their order of measurement, and say how much each is still worth.

    ``cells`` names the (series, commit) a value belongs to, ``kinds`` its series. What was measured while the machine
    was busy is corrected and counts less; levels are kept, only what moves along the time axis goes.
    """
    best, likelihood = _without_mood(values, cells, kinds)
    for reach in REACHES:
        if len(values) >= 8 * reach:
            candidate, its_likelihood = _backfitted(values, cells, kinds, reach)
            if its_likelihood > likelihood:
                best, likelihood = candidate, its_likelihood
    return best


def _without_mood(values: Floats, cells: Ints, kinds: Ints) -> tuple[Calm, float]:
    residuals = values - cell_levels(values, np.ones(len(values)), cells)
    sds = _sds(residuals, np.zeros(len(values)), kinds)
    return Calm(values, sds), _likelihood(residuals, sds)


def _backfitted(values: Floats, cells: Ints, kinds: Ints, reach: int) -> tuple[Calm, float]:
    calm = _without_mood(values, cells, kinds)[0]
    for _ in range(PASSES):
        residuals = values - cell_levels(calm.values, calm.sds, cells)
        votes = np.clip(residuals / _sds(residuals, np.zeros(len(values)), kinds), -HEAVY_SIGMAS, HEAVY_SIGMAS)
        shared = neighbour_mean(votes, cells, reach)
        shared -= np.quantile(shared, CALMEST)
        explained = _explained(shared, residuals, kinds)
        sds = _sds(residuals - explained, np.maximum(shared, 0), kinds)
        calm = Calm(values - explained, sds)
    return calm, _likelihood(calm.values - cell_levels(calm.values, calm.sds, cells), calm.sds)


def neighbour_mean(votes: Floats, cells: Ints, reach: int) -> Floats:
    """Mean over the neighbours in time, itself and its own cell left out, so that no value explains itself away."""
    total, count = np.zeros(len(votes)), np.zeros(len(votes))
    for lag in range(1, reach + 1):
        foreign = cells[lag:] != cells[:-lag]
        total[lag:] += np.where(foreign, votes[:-lag], 0.0)
        count[lag:] += foreign
        total[:-lag] += np.where(foreign, votes[lag:], 0.0)
        count[:-lag] += foreign
    return np.asarray(total / np.maximum(count, 1))


def _explained(shared: Floats, residuals: Floats, kinds: Ints) -> Floats:
    """What the mood did to each value: per series a least-squares line that never falls with the mood."""
    effect = np.zeros(len(shared))
    for mine in _members(kinds):
        mood = shared[mine] - shared[mine].mean()
        slope = float(mood @ residuals[mine]) / max(float(mood @ mood), 1e-12)
        effect[mine] = max(slope, 0.0) * shared[mine]
    return effect


def _sds(residuals: Floats, mood: Floats, kinds: Ints) -> Floats:
    """Standard deviation of every value: per series a line in the mood, fitted to the absolute residuals."""
    sds = np.zeros(len(residuals))
    for mine in _members(kinds):
        sizes = np.abs(residuals[mine])
        sizes = np.minimum(sizes, HEAVY_SIGMAS * max(MAD_TO_SIGMA * float(np.median(sizes)), FINEST_SD))
        centred = mood[mine] - mood[mine].mean()
        slope = max(float(centred @ sizes) / max(float(centred @ centred), 1e-12), 0.0)
        line = sizes.mean() + slope * centred
        sds[mine] = np.maximum(line, max(0.2 * float(sizes.mean()), FINEST_SD)) * ABS_TO_SIGMA
    return sds


ABS_TO_SIGMA = 1.2533
"""Mean absolute deviation of a normal sample times this is its standard deviation: sqrt(pi / 2)."""


def _likelihood(residuals: Floats, sds: Floats) -> float:
    """Mean log likelihood under Laplace's double exponential, which does not mind a hiccup."""
    return -float((np.log(sds) + math.sqrt(2) * np.abs(residuals) / sds).mean())


def _members(groups: Ints) -> list[Ints]:
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def cell_levels(values: Floats, sds: Floats, cells: Ints) -> Floats:
    """The level of each value's cell."""
    levels = np.zeros(len(values))
    for mine in _members(cells):
        levels[mine] = weighted_level(values[mine], sds[mine])
    return levels


def weighted_level(values: Floats, sds: Floats) -> float:
    """Huber's (1964) location of values that were measured with different precision."""
    weights = 1 / sds**2
    order = np.argsort(values)
    middle = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    centre = float(values[order][min(middle, len(values) - 1)])
    for _ in range(5):
        cut = np.clip(values - centre, -HUBER * sds, HUBER * sds)
        centre += float(np.average(cut, weights=weights))
    return centre


@dataclass(frozen=True, slots=True)
class Ladder:
    """Levels of the commits of a line, in order, with the standard error of each; NaN where nothing was measured."""

    levels: Floats
    errors: Floats
    df: float


def ladder(commits: Sequence[Calm]) -> Ladder:
    """A level per commit; how precise the values are is known from all commits, which share one machine."""
    levels = np.array([weighted_level(side.values, side.sds) if len(side.values) else math.nan for side in commits])
    errors = np.array([1 / math.sqrt((1 / side.sds**2).sum()) if len(side.values) else math.nan for side in commits])
    known = float(sum(len(side.values) - 1 for side in commits if len(side.values) > 1))
    counted = sum(len(side.values) for side in commits)
    return Ladder(levels, errors * math.sqrt(counted / max(known, 1.0)), known)


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
