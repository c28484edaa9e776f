"""Error spending over several interim analyses."""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal, norm

from perfci.stats.group_sequential import (
    ALPHA,
    next_look_pairs,
    nominal_look_levels,
    plan_error_spending,
    power_spending,
)


def test_a_single_look_spends_the_whole_error() -> None:
    assert nominal_look_levels((1.0,)) == pytest.approx((ALPHA,))


def test_two_looks_spend_what_the_bivariate_normal_says() -> None:
    first, last = -ndtri(np.array(nominal_look_levels((0.5, 1.0))))
    scores = multivariate_normal(cov=[[1, math.sqrt(0.5)], [math.sqrt(0.5), 1]])

    assert 1 - norm.cdf(first) == pytest.approx(ALPHA * 0.5**1.5)
    assert 1 - scores.cdf([first, last]) == pytest.approx(ALPHA, abs=5e-5)


def test_all_looks_together_keep_the_error() -> None:
    fractions = (0.25, 0.4, 0.6, 1.0)
    boundaries = -ndtri(np.array(nominal_look_levels(fractions)))
    steps = np.random.default_rng(6).normal(0, np.sqrt(np.diff((0.0, *fractions))), (40_000, 4))
    scores = np.cumsum(steps, axis=1) / np.sqrt(fractions)

    assert (scores > boundaries).any(axis=1).mean() == pytest.approx(ALPHA, abs=0.003)


def test_spending_starts_at_zero_and_ends_at_alpha() -> None:
    assert power_spending(0.0) == 0.0
    assert power_spending(1.0) == pytest.approx(ALPHA)


def test_a_quiet_benchmark_spends_early_and_keeps_a_rest() -> None:
    quiet, noisy = (
        plan_error_spending([40.0, 60.0], [5, 8], 20),
        plan_error_spending([0.01, 0.02], [5, 8], 20),
    )

    assert noisy == pytest.approx((0.25, 0.4))
    assert quiet[0] > noisy[0]
    assert quiet[-1] < 1.0


def test_plans_increase_and_end_at_one() -> None:
    plan = plan_error_spending([0.9, 0.2, 0.1, 0.1], [5, 8, 12, 20], 20)

    assert list(plan) == sorted(set(plan))
    assert plan[-1] == 1.0


def test_every_look_has_error_to_spend_however_many_there_are() -> None:
    looks = list(range(5, 21))

    levels = nominal_look_levels(plan_error_spending([40.0] * len(looks), looks, 20))

    assert min(levels) > 0.0005
    assert plan_error_spending([40.0] * len(looks), looks, 20)[-1] == 1.0


def test_plans_that_begin_alike_have_the_same_levels_so_far() -> None:
    assert nominal_look_levels((0.2, 0.5, 1.0))[:2] == nominal_look_levels((0.2, 0.5))


def test_the_next_look_is_the_next_planned_one() -> None:
    assert next_look_pairs((5, 8, 12, 20), 6) == 8
    assert next_look_pairs((5, 8, 12, 20), 20) == 20
