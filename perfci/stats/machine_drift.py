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

NEIGHBOUR_REACHES = (2, 4, 8)
"""Neighbours in time on either side that may tell the mood; the reach that predicts best is taken, or none."""

BACKFITTING_PASSES = 6
"""Levels, mood and noise are estimated in turn (backfitting, Breiman & Friedman 1985) until they settle."""

RESIDUAL_CLIP_SIGMAS = 3.0
"""Standardised residuals are cut here before they vote on the mood: one hiccup is no mood."""

BASELINE_QUANTILE = 0.1
"""The calm machine is the lowest tenth of the moods: neighbours slow a process down, they never speed it up."""

HUBER_CUTOFF = 1.5
"""Where a residual stops counting in full (Huber 1964): 96 % of the mean's precision on normal data."""

MIN_SD = 5e-4
"""No process level is believed to be finer than 0.05 %."""


@dataclass(frozen=True, slots=True)
class DriftCorrectedValues:
    """Values without the machine's mood, each with the standard deviation it was measured with."""

    values: Floats
    sds: Floats


def correct_machine_drift(values: Floats, cell_ids: Ints, series_ids: Ints) -> DriftCorrectedValues:
    """Take the mood out of values in their order of measurement, and say how much each is still worth.

    ``cells`` names the (series, commit) a value belongs to, ``kinds`` its series. What was measured while the machine
    was busy is corrected and counts less; levels are kept, only what moves along the time axis goes.
    """
    best, likelihood = _fit_without_drift(values, cell_ids, series_ids)
    for reach in NEIGHBOUR_REACHES:
        if len(values) >= 8 * reach:
            candidate, candidate_likelihood = _backfit_drift(values, cell_ids, series_ids, reach)
            if candidate_likelihood > likelihood:
                best, likelihood = candidate, candidate_likelihood
    return best


def _fit_without_drift(
    values: Floats, cell_ids: Ints, series_ids: Ints
) -> tuple[DriftCorrectedValues, float]:
    residuals = values - cell_levels(values, np.ones(len(values)), cell_ids)
    sds = _estimate_sds(residuals, np.zeros(len(values)), series_ids)
    return DriftCorrectedValues(values, sds), _mean_log_likelihood(residuals, sds)


def _backfit_drift(
    values: Floats, cell_ids: Ints, series_ids: Ints, reach: int
) -> tuple[DriftCorrectedValues, float]:
    corrected = _fit_without_drift(values, cell_ids, series_ids)[0]
    for _ in range(BACKFITTING_PASSES):
        residuals = values - cell_levels(corrected.values, corrected.sds, cell_ids)
        scores = np.clip(
            residuals / _estimate_sds(residuals, np.zeros(len(values)), series_ids),
            -RESIDUAL_CLIP_SIGMAS,
            RESIDUAL_CLIP_SIGMAS,
        )
        drift = neighbour_mean(scores, cell_ids, reach)
        drift -= np.quantile(drift, BASELINE_QUANTILE)
        effect = _drift_effect(drift, residuals, series_ids)
        sds = _estimate_sds(residuals - effect, np.maximum(drift, 0), series_ids)
        corrected = DriftCorrectedValues(values - effect, sds)
    return corrected, _mean_log_likelihood(
        corrected.values - cell_levels(corrected.values, corrected.sds, cell_ids), corrected.sds
    )


def neighbour_mean(scores: Floats, cell_ids: Ints, reach: int) -> Floats:
    """Mean over the neighbours in time, itself and its own cell left out, so that no value explains itself away."""
    total, count = np.zeros(len(scores)), np.zeros(len(scores))
    for lag in range(1, reach + 1):
        foreign = cell_ids[lag:] != cell_ids[:-lag]
        total[lag:] += np.where(foreign, scores[:-lag], 0.0)
        count[lag:] += foreign
        total[:-lag] += np.where(foreign, scores[lag:], 0.0)
        count[:-lag] += foreign
    return np.asarray(total / np.maximum(count, 1))


def _drift_effect(drift: Floats, residuals: Floats, series_ids: Ints) -> Floats:
    """What the mood did to each value: per series a least-squares line that never falls with the mood."""
    effect = np.zeros(len(drift))
    for members in _indices_by_group(series_ids):
        centred = drift[members] - drift[members].mean()
        slope = float(centred @ residuals[members]) / max(float(centred @ centred), 1e-12)
        effect[members] = max(slope, 0.0) * drift[members]
    return effect


def _estimate_sds(residuals: Floats, drift: Floats, series_ids: Ints) -> Floats:
    """Standard deviation of every value: per series a line in the mood, fitted to the absolute residuals."""
    sds = np.zeros(len(residuals))
    for members in _indices_by_group(series_ids):
        sizes = np.abs(residuals[members])
        sizes = np.minimum(sizes, RESIDUAL_CLIP_SIGMAS * max(MAD_TO_SIGMA * float(np.median(sizes)), MIN_SD))
        centred = drift[members] - drift[members].mean()
        slope = max(float(centred @ sizes) / max(float(centred @ centred), 1e-12), 0.0)
        line = sizes.mean() + slope * centred
        sds[members] = np.maximum(line, max(0.2 * float(sizes.mean()), MIN_SD)) * ABS_TO_SIGMA
    return sds


ABS_TO_SIGMA = 1.2533
"""Mean absolute deviation of a normal sample times this is its standard deviation: sqrt(pi / 2)."""


def _mean_log_likelihood(residuals: Floats, sds: Floats) -> float:
    """Mean log likelihood under Laplace's double exponential, which does not mind a hiccup."""
    return -float((np.log(sds) + math.sqrt(2) * np.abs(residuals) / sds).mean())


def _indices_by_group(group_ids: Ints) -> list[Ints]:
    order = np.argsort(group_ids, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group_ids[order])) + 1)


def cell_levels(values: Floats, sds: Floats, cell_ids: Ints) -> Floats:
    """The level of each value's cell."""
    levels = np.zeros(len(values))
    for members in _indices_by_group(cell_ids):
        levels[members] = weighted_huber_location(values[members], sds[members])
    return levels


def weighted_huber_location(values: Floats, sds: Floats) -> float:
    """Huber's (1964) location of values that were measured with different precision."""
    weights = 1 / sds**2
    order = np.argsort(values)
    middle = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    centre = float(values[order][min(middle, len(values) - 1)])
    for _ in range(5):
        cut = np.clip(values - centre, -HUBER_CUTOFF * sds, HUBER_CUTOFF * sds)
        centre += float(np.average(cut, weights=weights))
    return centre


@dataclass(frozen=True, slots=True)
class CommitLevels:
    """Levels of the commits of a line, in order, with the standard error of each; NaN where nothing was measured."""

    levels: Floats
    errors: Floats
    df: float


def estimate_commit_levels(corrected: Sequence[DriftCorrectedValues]) -> CommitLevels:
    """A level per commit; how precise the values are is known from all commits, which share one machine."""
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
    return CommitLevels(levels, errors * math.sqrt(value_count / max(df, 1.0)), df)


@dataclass(frozen=True, slots=True)
class CommitLevelStep:
    """Between commits ``at - 1`` and ``at`` the level moves by ``size``, as seen between ``start`` and ``end``."""

    index: int
    size: float
    error: float
    start: int
    end: int

    @property
    def sigmas(self) -> float:
        return self.size / self.error


def segment_commit_levels(commit_levels: CommitLevels, *, penalty: float) -> list[CommitLevelStep]:
    """Where the level moves: exact weighted least squares with a penalty per move (Jackson et al. 2005).

    Each move is then measured between the segments it separates, of which up to ``REACH`` commits a side count.
    """
    line = _select_measured(commit_levels)
    if len(line.levels) < 2:
        return []
    edges = _optimal_partition(line, penalty)
    return [_measure_step(line, *edges[k : k + 3]) for k in range(len(edges) - 2)]


def find_alternative_steps(commit_levels: CommitLevels, step: CommitLevelStep) -> list[CommitLevelStep]:
    """The places next to a move that explain the levels nearly as well: within the 95 % likelihood region."""
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


MAX_SIDE_COMMITS = 3
"""Commits a side that speak for a move: levels persist, but a machine's line of commits may creep."""

MAX_DEVIANCE_LOSS = 3.84
"""Twice the log likelihood a place may lack: the 95 % quantile of chi-square with one degree of freedom."""


@dataclass(frozen=True, slots=True)
class _MeasuredCommits:
    """The measured commits alone; ``places`` are their positions on the line."""

    levels: Floats
    weights: Floats
    positions: Ints


def _select_measured(commit_levels: CommitLevels) -> _MeasuredCommits:
    measured = np.flatnonzero(np.isfinite(commit_levels.levels))
    return _MeasuredCommits(commit_levels.levels[measured], 1 / commit_levels.errors[measured] ** 2, measured)


def _optimal_partition(commits: _MeasuredCommits, penalty: float) -> list[int]:
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
    weights, levels = commits.weights[start:end], commits.levels[start:end]
    return float((weights * (levels - np.average(levels, weights=weights)) ** 2).sum())


def _split_cost(commits: _MeasuredCommits, start: int, boundary: int, end: int) -> float:
    return _segment_cost(commits, start, boundary) + _segment_cost(commits, boundary, end)


def _measure_step(commits: _MeasuredCommits, start: int, boundary: int, end: int) -> CommitLevelStep:
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
