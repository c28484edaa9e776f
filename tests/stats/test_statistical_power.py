"""Minimum detectable effects, and the pairs that would decide."""

import math

import numpy as np
import pytest

from perfci.stats.location_shift import Shift
from perfci.stats.statistical_power import (
    estimate_pairs_to_decide,
    minimum_detectable_effect,
    predictive_probability_between,
)


def test_the_minimum_detectable_effect_is_confirmed_four_times_in_five() -> None:
    bar, null, error, df = math.log1p(0.05), math.log1p(0.025), 0.02, 18.0
    visible = minimum_detectable_effect(error, df, bar, null)
    rng = np.random.default_rng(10)
    shifts = [Shift(visible + error * float(rng.normal()), error, df, 10) for _ in range(4000)]
    confirmed = [shift.centre >= bar and shift.bounds()[0] > null for shift in shifts]

    assert np.mean(confirmed) == pytest.approx(0.8, abs=0.03)


def test_pairs_to_decide_grow_as_the_target_width_shrinks() -> None:
    shift = Shift(0.1, 0.05, 8, 5)

    wide, narrow = estimate_pairs_to_decide(shift, 0.08), estimate_pairs_to_decide(shift, 0.04)

    assert wide is not None
    assert narrow is not None
    assert 0 < wide < narrow


def test_no_number_of_pairs_decides_without_a_target_width_or_known_noise() -> None:
    assert estimate_pairs_to_decide(Shift(0.1, 0.05, 8, 5), 0.0) is None
    assert estimate_pairs_to_decide(Shift(0.1, 0.05, 8, 5), 1e-4) is None
    assert estimate_pairs_to_decide(Shift(0.1, math.inf, 0, 1), 0.05) is None


def test_the_predictive_probability_agrees_with_simulation() -> None:
    rng = np.random.default_rng(11)
    sd, first, all_pairs, at = 0.05, 10, 20, 0.03
    more = rng.normal(0, 1, (4000, 1)) * sd / math.sqrt(first) + rng.normal(at, sd, (4000, all_pairs - first))
    ends = (first * at + more.sum(axis=1)) / all_pairs

    expected = predictive_probability_between(
        Shift(at, sd / math.sqrt(first), 9, first), all_pairs, -0.02, 0.02
    )

    assert np.mean((ends > -0.02) & (ends < 0.02)) == pytest.approx(expected, abs=0.03)
    assert predictive_probability_between(Shift(at, sd, 9, first), all_pairs, 0.02, -0.02) == 0.0
