"""Noise priors from benchmarks of one session and from A/A history."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfci.model import MetricClass
from perfci.stats.location_shift import Shift, estimate_shift
from perfci.verdicts.compare.noise_prior import PairNoise, pooled_noise_prior

TIME, MEMORY = MetricClass.TIME, MetricClass.MEMORY


def a_spread(
    sd: float, *, kind: MetricClass = TIME, df: float = 8, past: float | None = None, aa_runs: int = 0
) -> PairNoise:
    return PairNoise(kind, sd**2, df, past**2 if past else None, aa_runs)


def test_a_single_benchmark_has_no_pooled_prior() -> None:
    assert pooled_noise_prior({"a": a_spread(0.01)}, "a") is None
    assert pooled_noise_prior({}, "a") is None


def test_pools_the_noise_of_one_metric_class_only() -> None:
    spreads = {k: a_spread(0.01 * (1 + k / 50)) for k in range(10)} | {"peak": a_spread(1e-4, kind=MEMORY)}

    prior = pooled_noise_prior(spreads, 0)

    assert prior is not None
    assert prior.sd == pytest.approx(0.011, rel=0.1)
    assert pooled_noise_prior(spreads, "peak") is None


def test_a_group_counts_for_more_than_the_own_aa_history() -> None:
    today = {k: a_spread(0.01 * (1 + k / 50)) for k in range(6)}
    with_history = {**today, 0: a_spread(0.01, past=0.002, aa_runs=3)}

    assert pooled_noise_prior(with_history, 0) == pooled_noise_prior(today, 0)


def test_without_a_class_uses_the_aa_history_unless_todays_noise_differs() -> None:
    usual, noisy = a_spread(0.012, past=0.01, aa_runs=30), a_spread(0.03, past=0.01, aa_runs=30)

    prior = pooled_noise_prior({"a": usual}, "a")

    assert prior is not None
    assert (prior.sd, prior.df) == (pytest.approx(0.01), 8)
    assert pooled_noise_prior({"a": noisy}, "a") is None


def test_an_aa_history_needs_three_aa_runs() -> None:
    shift = Shift(0.01, 0.004, 8, 5)

    two, three = (PairNoise.from_shift(TIME, shift, [(0.01, 5)] * count) for count in (2, 3))

    assert two is not None
    assert three is not None
    assert (two.aa_variance, three.aa_variance) == (None, pytest.approx(0.01**2 * 5 / math.log(2)))


def test_one_bad_aa_night_of_ten_hardly_widens_the_history() -> None:
    shift, nights = Shift(0.01, 0.004, 8, 5), np.random.default_rng(8).normal(0, 0.01, 10).tolist()

    usual, disturbed = (
        PairNoise.from_shift(TIME, shift, [(ratio, 5) for ratio in ratios])
        for ratios in (nights, [math.log(1.35), *nights[1:]])
    )

    assert usual is not None
    assert disturbed is not None
    assert (disturbed.aa_variance or 0) <= 1.6 * (usual.aa_variance or 0)


def test_a_single_pair_has_no_noise_estimate() -> None:
    assert PairNoise.from_shift(TIME, Shift(0.01, math.inf, 0, 1)) is None


@pytest.mark.parametrize("unlike", [0.0, 0.5, 1.0])
def test_intervals_still_cover_where_benchmarks_differ_in_noise(unlike: float) -> None:
    rng = np.random.default_rng(3)
    covered = count = 0
    for _ in range(60):
        sds = 0.01 * np.exp(rng.normal(0, unlike, 12))
        sides = [rng.normal(0, sd, (2, 5)) for sd in sds]
        bare = [estimate_shift(base, head) for base, head in sides]
        spreads = {k: spread for k, item in enumerate(bare) if (spread := PairNoise.from_shift(TIME, item))}
        for k, (base, head) in enumerate(sides):
            low, high = estimate_shift(base, head, prior=pooled_noise_prior(spreads, k)).bounds()
            covered, count = covered + (low <= 0 <= high), count + 1

    assert covered / count >= 0.935


def test_intervals_of_a_noisy_fifth_still_cover() -> None:
    rng, covered = np.random.default_rng(5), []
    for _ in range(400):
        sides = [rng.normal(0, sd, (2, 5)) for sd in (0.04, 0.008, 0.008, 0.008, 0.008)]
        spreads = {
            k: spread
            for k, both in enumerate(sides)
            if (spread := PairNoise.from_shift(TIME, estimate_shift(*both)))
        }
        low, high = estimate_shift(*sides[0], prior=pooled_noise_prior(spreads, 0)).bounds()
        covered.append(low <= 0 <= high)

    assert np.mean(covered) >= 0.925


def test_a_benchmark_that_repeats_exactly_neither_lends_nor_borrows() -> None:
    assert PairNoise.from_shift(TIME, estimate_shift(np.zeros(5), np.full(5, 0.01))) is None


def test_one_unrelated_benchmark_moves_no_other_prior_far() -> None:
    usual = {k: a_spread(0.01 * (1 + k / 50)) for k in range(12)}

    alone, beside = (pooled_noise_prior(spreads, 0) for spreads in (usual, usual | {"odd": a_spread(2.0)}))

    assert alone is not None
    assert beside is not None
    assert (beside.sd, beside.df) == (pytest.approx(alone.sd, rel=0.05), pytest.approx(alone.df, rel=0.3))


def test_a_noisy_session_is_not_shrunk_to_a_quiet_history() -> None:
    rng = np.random.default_rng(4)
    covered = count = 0
    for _ in range(500):
        aa_runs = [(float(ratio), 5) for ratio in rng.normal(0, 0.005 * math.sqrt(2 / 5), 40)]
        base, head = rng.normal(0, 0.02, (2, 5))
        spread = PairNoise.from_shift(TIME, estimate_shift(base, head), aa_runs)
        assert spread is not None
        low, high = estimate_shift(base, head, prior=pooled_noise_prior({"a": spread}, "a")).bounds()
        covered, count = covered + (low <= 0 <= high), count + 1

    assert covered / count >= 0.9
