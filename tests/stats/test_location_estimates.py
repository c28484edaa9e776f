"""Levels of samples: the lower quartile."""

import numpy as np
import pytest

from perfci.stats.location_estimates import lower_quartile


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 49, 50, 51, 200])
def test_few_samples_have_the_quartile_that_numpy_gives_many(count: int) -> None:
    samples = np.random.default_rng(count).lognormal(0, 3, count).tolist()

    assert lower_quartile(samples) == np.quantile(samples, 0.25)


def test_the_lower_quartile_of_one_sample_is_that_sample() -> None:
    assert lower_quartile([2.5]) == 2.5


def test_the_lower_quartile_ignores_samples_slowed_by_neighbours() -> None:
    assert lower_quartile([1.0, 1.0, 1.0, 1.9, 1.8, 1.7]) == 1.0
