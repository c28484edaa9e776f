"""Drift of the machine in a session measured in rounds, estimated and removed.

Every round visits every commit once in random order, which separates the two: processes next to
each other in time share the drift, processes of one commit share the level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfci.stats.location_estimates import MAD_TO_SIGMA, Floats

Ints = NDArray[np.int64]
"""An int64 array."""

NEIGHBOUR_REACHES = (2, 4, 8)
"""Candidate numbers of neighbours in time, either side, that estimate the drift; the likeliest is
taken, or none."""

BACKFITTING_PASSES = 6
"""Levels, drift and noise are estimated in turn until they settle (backfitting, Breiman & Friedman
1985)."""

RESIDUAL_CLIP_SIGMAS = 3.0
"""Standardised residuals are clipped here before they count towards the drift: a single outlier is
no drift."""

BASELINE_QUANTILE = 0.1
"""Quantile of the drift that counts as the undisturbed machine: neighbours slow a process down,
never speed it up."""

HUBER_CUTOFF = 1.5
"""Sigmas from which a residual stops counting in full (Huber 1964): 96 % efficiency on normal data."""

MIN_SD = 5e-4
"""Smallest standard deviation of a process level: 0.05 %."""


@dataclass(frozen=True, slots=True)
class DriftCorrectedValues:
    """Values of shape (n,) without the drift, and the standard deviation of each."""

    values: Floats
    sds: Floats


def correct_session_drift(values: Floats, cell_ids: Ints, series_ids: Ints) -> DriftCorrectedValues:
    """Remove the machine's drift from log values in their order of measurement, all arrays of shape
    (n,).

    ``cell_ids`` number the (series, commit) of a value, ``series_ids`` its series. Values measured
    while the machine was busy are corrected and get a larger standard deviation. Levels of cells
    are kept; only what moves along the time axis is removed.
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
    """Standard deviations without any drift, and their mean log likelihood."""
    residuals = values - level_of_each_cell(values, np.ones(len(values)), cell_ids)
    sds = _estimate_sds(residuals, np.zeros(len(values)), series_ids)
    return DriftCorrectedValues(values, sds), _mean_log_likelihood(residuals, sds)


def _backfit_drift(
    values: Floats, cell_ids: Ints, series_ids: Ints, reach: int
) -> tuple[DriftCorrectedValues, float]:
    """Estimate levels, drift and noise in turn with this many neighbours, and the mean log
    likelihood."""
    corrected = _fit_without_drift(values, cell_ids, series_ids)[0]
    for _ in range(BACKFITTING_PASSES):
        residuals = values - level_of_each_cell(corrected.values, corrected.sds, cell_ids)
        scores = np.clip(
            residuals / _estimate_sds(residuals, np.zeros(len(values)), series_ids),
            -RESIDUAL_CLIP_SIGMAS,
            RESIDUAL_CLIP_SIGMAS,
        )
        drift = mean_of_time_neighbours(scores, cell_ids, reach)
        # zero is the undisturbed machine, so that correction only ever makes values faster
        drift -= np.quantile(drift, BASELINE_QUANTILE)
        effect = _drift_effect(drift, residuals, series_ids)
        sds = _estimate_sds(residuals - effect, np.maximum(drift, 0), series_ids)
        corrected = DriftCorrectedValues(values - effect, sds)
    return corrected, _mean_log_likelihood(
        corrected.values - level_of_each_cell(corrected.values, corrected.sds, cell_ids), corrected.sds
    )


def mean_of_time_neighbours(scores: Floats, cell_ids: Ints, reach: int) -> Floats:
    """Mean over neighbours in time, a value's own cell left out, so that no value explains itself."""
    total, count = np.zeros(len(scores)), np.zeros(len(scores))
    for lag in range(1, reach + 1):
        foreign = cell_ids[lag:] != cell_ids[:-lag]
        total[lag:] += np.where(foreign, scores[:-lag], 0.0)
        count[lag:] += foreign
        total[:-lag] += np.where(foreign, scores[lag:], 0.0)
        count[:-lag] += foreign
    return np.asarray(total / np.maximum(count, 1))


def _drift_effect(drift: Floats, residuals: Floats, series_ids: Ints) -> Floats:
    """Effect of the drift on each value: per series a least-squares slope, never negative."""
    effect = np.zeros(len(drift))
    for members in _indices_by_group(series_ids):
        centred = drift[members] - drift[members].mean()
        slope = float(centred @ residuals[members]) / max(float(centred @ centred), 1e-12)
        effect[members] = max(slope, 0.0) * drift[members]
    return effect


def _estimate_sds(residuals: Floats, drift: Floats, series_ids: Ints) -> Floats:
    """Standard deviation of each value: per series linear in the drift, fitted to absolute
    residuals."""
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
"""Standard deviation over mean absolute deviation of normal data: sqrt(pi / 2)."""


def _mean_log_likelihood(residuals: Floats, sds: Floats) -> float:
    """Mean log likelihood under Laplace's double exponential, which is robust to outliers."""
    return -float((np.log(sds) + math.sqrt(2) * np.abs(residuals) / sds).mean())


def _indices_by_group(group_ids: Ints) -> list[Ints]:
    """Indices of the values of each group, stable within it."""
    order = np.argsort(group_ids, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group_ids[order])) + 1)


def level_of_each_cell(values: Floats, sds: Floats, cell_ids: Ints) -> Floats:
    """Level of each value's cell, shape (n,)."""
    levels = np.zeros(len(values))
    for members in _indices_by_group(cell_ids):
        levels[members] = weighted_huber_location(values[members], sds[members])
    return levels


def weighted_huber_location(values: Floats, sds: Floats) -> float:
    """Huber's (1964) location of values with different standard deviations, both of shape (n,).

    Starts at the weighted median; five steps of the mean of residuals clipped at 1.5 sd.
    """
    weights = 1 / sds**2
    order = np.argsort(values)
    middle = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    centre = float(values[order][min(middle, len(values) - 1)])
    for _ in range(5):
        cut = np.clip(values - centre, -HUBER_CUTOFF * sds, HUBER_CUTOFF * sds)
        centre += float(np.average(cut, weights=weights))
    return centre
