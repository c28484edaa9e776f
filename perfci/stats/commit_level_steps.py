"""Levels of the commits of a session measured in rounds, and where along the line they move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfci.stats.location_estimates import Floats
from perfci.stats.session_drift import DriftCorrectedValues, Ints, weighted_huber_location

MAX_SIDE_COMMITS = 3
"""Commits a side that measure a step: levels persist, but a line of commits may creep."""

MAX_DEVIANCE_LOSS = 3.84
"""Largest loss of twice the log likelihood: the 95 % quantile of chi-square with one degree of
freedom."""


@dataclass(frozen=True, slots=True)
class CommitLevels:
    """Levels of the commits of a line, in order, with the standard error of each; NaN where nothing
    was measured."""

    levels: Floats
    errors: Floats


def estimate_commit_levels(corrected: Sequence[DriftCorrectedValues]) -> CommitLevels:
    """Level of each commit; the standard errors use the spread pooled over all commits."""
    levels = np.array(
        [
            weighted_huber_location(side.values, side.sds) if len(side.values) else math.nan
            for side in corrected
        ]
    )
    errors = np.array(
        [1 / math.sqrt((1 / side.sds**2).sum()) if len(side.values) else math.nan for side in corrected]
    )
    df = float(sum(len(side.values) - 1 for side in corrected if len(side.values) > 1))
    value_count = sum(len(side.values) for side in corrected)
    return CommitLevels(levels, errors * math.sqrt(value_count / max(df, 1.0)))


@dataclass(frozen=True, slots=True)
class CommitLevelStep:
    """Between commits ``index - 1`` and ``index`` the level moves by ``size``, as seen from
    ``start`` to ``end``."""

    index: int
    size: float
    error: float
    start: int
    end: int

    @property
    def sigmas(self) -> float:
        """Size in standard errors."""
        return self.size / self.error


def segment_commit_levels(commit_levels: CommitLevels, *, penalty: float) -> list[CommitLevelStep]:
    """Steps of the level along the line: weighted least squares with a penalty per step, exact
    (Jackson et al. 2005).

    Each step is then measured between the segments it separates, on up to ``MAX_SIDE_COMMITS`` a
    side.
    """
    line = _select_measured(commit_levels)
    if len(line.levels) < 2:
        return []
    edges = _optimal_partition(line, penalty)
    return [_measure_step(line, *edges[k : k + 3]) for k in range(len(edges) - 2)]


def find_likely_step_positions(commit_levels: CommitLevels, step: CommitLevelStep) -> list[CommitLevelStep]:
    """Neighbouring positions of a step within its 95 % likelihood region."""
    line = _select_measured(commit_levels)
    first, at, last = (
        int(np.searchsorted(line.positions, place)) for place in (step.start, step.index, step.end)
    )
    best = _split_cost(line, first, at, last)
    near = [place for place in (at - 1, at + 1) if first < place < last]
    return [
        _measure_step(line, first, place, last)
        for place in near
        if _split_cost(line, first, place, last) - best < MAX_DEVIANCE_LOSS
    ]


@dataclass(frozen=True, slots=True)
class _MeasuredCommits:
    """The measured commits; ``positions`` are their places on the line."""

    levels: Floats
    weights: Floats
    positions: Ints


def _select_measured(commit_levels: CommitLevels) -> _MeasuredCommits:
    """Leave out commits without a level."""
    measured = np.flatnonzero(np.isfinite(commit_levels.levels))
    return _MeasuredCommits(commit_levels.levels[measured], 1 / commit_levels.errors[measured] ** 2, measured)


def _optimal_partition(commits: _MeasuredCommits, penalty: float) -> list[int]:
    """Edges of the best partition into constant levels."""
    count = len(commits.levels)
    best, came_from = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=int)
    best[0] = -penalty
    for end in range(1, count + 1):
        costs = [best[start] + _segment_cost(commits, start, end) + penalty for start in range(end)]
        came_from[end] = int(np.argmin(costs))
        best[end] = costs[came_from[end]]
    edges = [count]
    while edges[-1] > 0:
        edges.append(int(came_from[edges[-1]]))
    return edges[::-1]


def _segment_cost(commits: _MeasuredCommits, start: int, end: int) -> float:
    """Weighted sum of squares of one segment."""
    weights, levels = commits.weights[start:end], commits.levels[start:end]
    return float((weights * (levels - np.average(levels, weights=weights)) ** 2).sum())


def _split_cost(commits: _MeasuredCommits, start: int, boundary: int, end: int) -> float:
    """Weighted sum of squares of two adjacent segments."""
    return _segment_cost(commits, start, boundary) + _segment_cost(commits, boundary, end)


def _measure_step(commits: _MeasuredCommits, start: int, boundary: int, end: int) -> CommitLevelStep:
    """Difference of the weighted means next to a boundary, with its standard error."""
    before, after = (
        slice(max(start, boundary - MAX_SIDE_COMMITS), boundary),
        slice(boundary, min(end, boundary + MAX_SIDE_COMMITS)),
    )
    means = [
        float(np.average(commits.levels[side], weights=commits.weights[side])) for side in (before, after)
    ]
    error = math.sqrt(sum(1 / float(commits.weights[side].sum()) for side in (before, after)))
    first, last = int(commits.positions[start]), int(commits.positions[end - 1]) + 1
    return CommitLevelStep(int(commits.positions[boundary]), means[1] - means[0], error, first, last)
