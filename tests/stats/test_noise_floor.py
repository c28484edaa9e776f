"""Noise floors from A/A runs."""

import numpy as np
import pytest

from perfci.stats.noise_floor import compute_noise_floor


def test_the_noise_floor_is_the_quantile_of_aa_runs() -> None:
    ratios = np.random.default_rng(7).normal(0, 0.02, 500)

    assert compute_noise_floor(ratios.tolist()) == pytest.approx(0.04, abs=0.004)
    assert compute_noise_floor(ratios[:6].tolist()) == pytest.approx(0.04, abs=0.02)
    assert compute_noise_floor([]) is None
