"""How much less neighbouring points say than independent ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfci.stats.autocorrelation import (
    ar1_variance_inflation,
    correct_autocorrelation_bias,
    estimate_trend_autocorrelation,
)


def ar1_values(r: float, count: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).normal(0, 1, count)
    for at in range(1, count):
        values[at] = r * values[at - 1] + math.sqrt(1 - r**2) * values[at]
    return values


@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
def test_the_autocorrelation_is_estimated_without_the_trend(r: float) -> None:
    ramp = np.linspace(0, 5, 100)

    estimates = [estimate_trend_autocorrelation(ar1_values(r, 100, seed) + ramp) for seed in range(200)]

    # an estimate below zero counts as zero
    assert np.mean(estimates) == pytest.approx(max(r, 0.04), abs=0.04)


@pytest.mark.parametrize("r", [0.0, 0.4, 0.7])
def test_a_fitted_mean_is_corrected_for(r: float) -> None:
    """Forty points around their mean, on the average over four hundred lines."""
    estimates = []
    for seed in range(400):
        line = ar1_values(r, 40, seed)
        line -= line.mean()
        estimates.append(correct_autocorrelation_bias(line[1:] @ line[:-1] / (line @ line), 40, 1, 4))

    assert np.mean(estimates) == pytest.approx(r, abs=0.02)


def test_a_constant_or_short_series_remembers_nothing() -> None:
    assert estimate_trend_autocorrelation(np.ones(50)) == 0
    assert estimate_trend_autocorrelation(np.array([1.0, 2.0, 4.0])) == 0


def test_a_random_walk_is_capped() -> None:
    walk = np.random.default_rng(1).normal(0, 1, 2000).cumsum()

    assert ar1_variance_inflation(estimate_trend_autocorrelation(walk)) <= 199.01
