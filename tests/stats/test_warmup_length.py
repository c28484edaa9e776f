"""The warm-up that processes share."""

import numpy as np

from perfci.stats.warmup_length import warmup_length


def test_a_warm_up_that_all_processes_share_is_measured() -> None:
    rng = np.random.default_rng(2)
    decay = 1 + np.exp(-np.arange(20) / 2.0)
    processes = (decay * rng.normal(1, 0.002, (8, 20))).tolist()

    assert 6 <= warmup_length(processes) <= 10


def test_steady_processes_have_no_warm_up() -> None:
    rng = np.random.default_rng(3)

    assert warmup_length(rng.normal(1, 0.01, (10, 20)).tolist()) <= 1


def test_short_unequal_or_zero_samples_have_no_warm_up() -> None:
    assert warmup_length([[9.0, 1.0, 1.0]] * 5) == 0
    assert warmup_length([[9.0] + [1.0] * 9, [9.0] + [1.0] * 12]) == 0
    assert warmup_length([[9.0] + [0.0] * 9]) == 0
