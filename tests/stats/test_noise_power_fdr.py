"""The small rooms: noise floors and priors, power, false discoveries."""

import math

import numpy as np
import pytest

from perfci.stats import noise_model
from perfci.stats.location_shift import Shift
from perfci.stats.multiple_comparisons import benjamini_hochberg
from perfci.stats.power import estimate_pairs_to_decide, minimum_detectable_effect, predictive_probability


def test_the_floor_is_what_equal_commits_showed() -> None:
    ratios = np.random.default_rng(7).normal(0, 0.02, 500)

    assert noise_model.compute_noise_floor(ratios.tolist()) == pytest.approx(0.04, abs=0.004)
    assert noise_model.compute_noise_floor(ratios[:6].tolist()) == pytest.approx(0.04, abs=0.02)
    assert noise_model.compute_noise_floor([]) is None


def test_the_pooled_spread_ignores_the_levels_of_its_groups() -> None:
    rng = np.random.default_rng(8)
    groups = [rng.normal(level, 0.03, 5) for level in range(40)]

    assert noise_model.pooled_within_group_sd(groups) == pytest.approx(0.03, rel=0.15)
    assert noise_model.pooled_within_group_sd([np.array([1.0])]) is None


def test_equal_variances_make_a_firm_prior_and_unequal_ones_a_loose_one() -> None:
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


def test_what_is_just_visible_is_confirmed_four_times_in_five() -> None:
    bar, null, error, df = math.log1p(0.05), math.log1p(0.025), 0.02, 18.0
    visible = minimum_detectable_effect(error, df, bar, null)
    rng = np.random.default_rng(10)
    shifts = [Shift(visible + error * float(rng.normal()), error, df, 10) for _ in range(4000)]
    confirmed = [shift.centre >= bar and shift.bounds()[0] > null for shift in shifts]

    assert np.mean(confirmed) == pytest.approx(0.8, abs=0.03)


def test_pairs_to_decide_grow_as_the_room_shrinks() -> None:
    shift = Shift(0.1, 0.05, 8, 5)

    wide, narrow = estimate_pairs_to_decide(shift, 0.08), estimate_pairs_to_decide(shift, 0.04)

    assert wide is not None
    assert narrow is not None
    assert 0 < wide < narrow


def test_no_number_of_pairs_helps_without_room_or_noise_known() -> None:
    assert estimate_pairs_to_decide(Shift(0.1, 0.05, 8, 5), 0.0) is None
    assert estimate_pairs_to_decide(Shift(0.1, 0.05, 8, 5), 1e-4) is None
    assert estimate_pairs_to_decide(Shift(0.1, math.inf, 0, 1), 0.05) is None


def test_where_the_estimate_of_all_pairs_will_lie() -> None:
    rng = np.random.default_rng(11)
    sd, first, all_pairs, at = 0.05, 10, 20, 0.03
    more = rng.normal(0, 1, (4000, 1)) * sd / math.sqrt(first) + rng.normal(at, sd, (4000, all_pairs - first))
    ends = (first * at + more.sum(axis=1)) / all_pairs

    expected = predictive_probability(Shift(at, sd / math.sqrt(first), 9, first), all_pairs, -0.02, 0.02)

    assert np.mean((ends > -0.02) & (ends < 0.02)) == pytest.approx(expected, abs=0.03)
    assert predictive_probability(Shift(at, sd, 9, first), all_pairs, 0.02, -0.02) == 0.0


def test_benjamini_and_hochberg_s_own_example() -> None:
    p_values = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
    ]

    assert sum(benjamini_hochberg([*p_values, 0.6528, 0.7590, 1.0])) == 4


def test_order_does_not_matter_and_nothing_gives_nothing() -> None:
    assert benjamini_hochberg([0.9, 0.001, 0.02]) == [False, True, True]
    assert benjamini_hochberg([]) == []
