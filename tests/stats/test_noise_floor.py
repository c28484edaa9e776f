"""Noise floors from A/A runs."""

import math

import numpy as np
import pytest

from perfci.stats.noise_floor import (
    MAX_NOISE_FLOOR,
    compute_noise_floor,
    raise_bar_to_noise,
    robust_sd_about_zero,
    scale_aa_log_ratios,
)

QUIET_NIGHTS = np.random.default_rng(3).normal(0, 0.01, 25).tolist()


def test_most_aa_runs_stay_below_the_noise_floor() -> None:
    ratios = np.random.default_rng(7).normal(0, 0.02, 500)

    assert compute_noise_floor(ratios.tolist()) == pytest.approx(0.04, abs=0.004)
    assert compute_noise_floor(ratios[:6].tolist()) == pytest.approx(0.04, abs=0.02)


def test_two_aa_runs_have_no_noise_floor() -> None:
    assert compute_noise_floor([]) is None
    assert compute_noise_floor([0.01, 0.3]) is None


@pytest.mark.parametrize(("nights", "bad_nights"), [(5, 1), (10, 1), (10, 2), (25, 2), (25, 6)])
def test_bad_nights_do_not_blind_a_series(nights: int, bad_nights: int) -> None:
    bad = [math.log(1.35)] * bad_nights

    assert compute_noise_floor([*QUIET_NIGHTS[bad_nights:nights], *bad]) < 0.06


def test_a_floor_raises_a_bar_up_to_a_cap() -> None:
    assert raise_bar_to_noise(0.05, None) == 0.05
    assert raise_bar_to_noise(0.05, 0.03) == 0.05
    assert raise_bar_to_noise(0.05, 0.08) == 0.08
    assert raise_bar_to_noise(0.05, 40.0) == MAX_NOISE_FLOOR


def test_a_floor_is_a_number_however_far_runs_are_apart() -> None:
    assert math.isfinite(compute_noise_floor([700.0, -700.0, 700.0]) or math.inf)


def test_fewer_pairs_wander_more_and_more_pairs_no_less() -> None:
    aa_runs = [(0.02, 20), (-0.01, 20)]

    assert scale_aa_log_ratios(aa_runs, 5) == pytest.approx([0.04, -0.02])
    assert scale_aa_log_ratios(aa_runs, 40) == [0.02, -0.01]


def test_the_spread_of_runs_that_only_flip_their_sign_is_seen() -> None:
    assert robust_sd_about_zero([0.01, -0.01] * 5) == pytest.approx(0.01 / math.sqrt(math.log(2)))
