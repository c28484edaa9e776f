"""The sign test of many shifts and the exact interval of a share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from perfci.stats.binomial_statistics import clopper_pearson_interval, passes_sign_test


def test_the_sign_test_needs_five_of_five() -> None:
    assert not passes_sign_test([0.1] * 4)
    assert passes_sign_test([0.1] * 5)
    assert not passes_sign_test([0.1] * 14 + [-0.1] * 6)
    assert passes_sign_test([-0.1] * 15 + [0.1] * 5)
    assert not passes_sign_test([0.0] * 20)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (0, 300, 0.0, 0.0122),  # the rule of three, a little above: 1 - 0.025 ** (1 / 300)
        (1, 10, 0.0025, 0.4450),  # Clopper & Pearson (1934), read from their chart's curves
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
    ],
)
def test_gives_the_interval_of_clopper_and_pearson(hits: int, trials: int, low: float, high: float) -> None:
    assert clopper_pearson_interval(hits, trials) == (
        pytest.approx(low, abs=5e-5),
        pytest.approx(high, abs=5e-5),
    )


def test_no_trials_give_the_whole_range() -> None:
    assert clopper_pearson_interval(0, 0) == (0.0, 1.0)


def test_refuses_more_hits_than_trials() -> None:
    with pytest.raises(ValueError, match="between 0 and 3 hits, found 4"):
        clopper_pearson_interval(4, 3)


@given(st.data())
def test_each_end_of_the_interval_leaves_half_the_error_outside(data: st.DataObject) -> None:
    trials = data.draw(st.integers(1, 5000))
    hits = data.draw(st.integers(0, trials))

    low, high = clopper_pearson_interval(hits, trials)

    assert 0 <= low <= hits / trials <= high <= 1
    assert hits == 0 or binom.sf(hits - 1, trials, low) == pytest.approx(0.025, rel=1e-6)
    assert hits == trials or binom.cdf(hits, trials, high) == pytest.approx(0.025, rel=1e-6)


@given(trials=st.integers(1, 60), share=st.floats(0, 1))
def test_covers_the_truth_in_95_of_100(trials: int, share: float) -> None:
    covering = [
        k for k in range(trials + 1) if (ends := clopper_pearson_interval(k, trials))[0] <= share <= ends[1]
    ]

    assert (
        np.exp(binom.logpmf(covering, trials, share)).sum() >= 0.95 - 1e-9
    )  # pmf itself overflows at 1e-300
