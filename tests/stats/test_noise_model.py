"""Noise floors and noise priors from A/A runs."""

import numpy as np
import pytest

from perfci.stats import noise_model


def test_the_noise_floor_is_the_quantile_of_aa_runs() -> None:
    ratios = np.random.default_rng(7).normal(0, 0.02, 500)

    assert noise_model.compute_noise_floor(ratios.tolist()) == pytest.approx(0.04, abs=0.004)
    assert noise_model.compute_noise_floor(ratios[:6].tolist()) == pytest.approx(0.04, abs=0.02)
    assert noise_model.compute_noise_floor([]) is None


def test_the_pooled_spread_ignores_the_levels_of_its_groups() -> None:
    rng = np.random.default_rng(8)
    groups = [rng.normal(level, 0.03, 5) for level in range(40)]

    assert noise_model.pooled_within_group_sd(groups) == pytest.approx(0.03, rel=0.15)
    assert noise_model.pooled_within_group_sd([np.array([1.0])]) is None


def test_equal_variances_give_a_strong_prior_and_unequal_ones_a_weak_one() -> None:
    rng = np.random.default_rng(9)
    equal = [float(rng.normal(0, 0.02, 5).var(ddof=1)) for _ in range(200)]
    unequal = [float(rng.normal(0, 10 ** rng.uniform(-3, -1), 5).var(ddof=1)) for _ in range(200)]

    firm, loose = noise_model.fit_noise_prior(equal, 4), noise_model.fit_noise_prior(unequal, 4)

    assert firm is not None
    assert loose is not None
    assert firm.df == noise_model.MAX_PRIOR_DF
    assert firm.sd == pytest.approx(0.02, rel=0.1)
    assert loose.df < 3
    assert noise_model.fit_noise_prior([0.1, 0.2], 4) is None
