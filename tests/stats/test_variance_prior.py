"""Noise priors from the variances of other series."""

import numpy as np
import pytest

from perfci.stats.variance_prior import MAX_PRIOR_DF, fit_noise_prior, pooled_within_group_sd


def test_the_pooled_spread_ignores_the_levels_of_its_groups() -> None:
    rng = np.random.default_rng(8)
    groups = [rng.normal(level, 0.03, 5) for level in range(40)]

    assert pooled_within_group_sd(groups) == pytest.approx(0.03, rel=0.15)
    assert pooled_within_group_sd([np.array([1.0])]) is None


def test_equal_variances_give_a_strong_prior_and_unequal_ones_a_weak_one() -> None:
    rng = np.random.default_rng(9)
    equal = [float(rng.normal(0, 0.02, 5).var(ddof=1)) for _ in range(200)]
    unequal = [float(rng.normal(0, 10 ** rng.uniform(-3, -1), 5).var(ddof=1)) for _ in range(200)]

    firm, loose = fit_noise_prior(equal, 4), fit_noise_prior(unequal, 4)

    assert firm is not None
    assert loose is not None
    assert firm.df == MAX_PRIOR_DF
    assert firm.sd == pytest.approx(0.02, rel=0.1)
    assert loose.df < 3
    assert fit_noise_prior([0.1, 0.2], 4) is None
