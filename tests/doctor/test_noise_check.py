"""What the doctor promises of a machine, from what equals showed on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfci.config import JudgeTable
from perfci.doctor.findings import DoctorFinding, ok_finding, problem_finding, warning_finding
from perfci.doctor.noise_check import (
    FORECAST_PAIRS,
    AAMeasurement,
    check_detectable_effect,
    check_noise,
    compute_detectable_effect,
)
from perfci.stats.location_shift import Shift, estimate_shift

JUDGE = JudgeTable()


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        (
            (0.041, 0.034, 0.031),
            ok_finding(
                "noise", "quiet enough for 5.0 %: 5 pairs see 4.1 %; 10 pairs see 3.4 %; 20 pairs see 3.1 %"
            ),
        ),
        (
            (0.062, 0.049, 0.038),
            warning_finding(
                "noise",
                "5.0 % needs 10 pairs: 5 pairs see 6.2 %; 10 pairs see 4.9 %; 20 pairs see 3.8 %",
                "see the warnings about the machine, if any",
            ),
        ),
        (
            (math.inf, 0.11, 0.0501),
            problem_finding(
                "noise",
                "too noisy to detect 5.0 %: 5 pairs see nothing; 10 pairs see 11.0 %; 20 pairs see 5.0 %",
                "quieten the machine (see the warnings), judge by exact counts, or raise [judge] "
                "bar in perfci.toml",
            ),
        ),
    ],
)
def test_reports_only_effects_detectable_above_the_noise(
    effects: tuple[float, ...], expected: DoctorFinding
) -> None:
    assert check_detectable_effect(dict(zip(FORECAST_PAIRS, effects, strict=True)), JUDGE) == expected


def test_checks_the_detectable_effect_against_the_configured_bar() -> None:
    finding = check_detectable_effect({5: 0.09, 10: 0.08, 20: 0.07}, JudgeTable(bar=0.10))

    assert finding == ok_finding(
        "noise", "quiet enough for 10.0 %: 5 pairs see 9.0 %; 10 pairs see 8.0 %; 20 pairs see 7.0 %"
    )


def test_reports_the_noise_floor_with_its_sample_size() -> None:
    equals = AAMeasurement(
        "steady.time_python_loop · cpu_time", 41.3, (0.01, -0.01, 0.01, -0.01), Shift(0.0, 0.005, 3, 4)
    )

    floor, sight = check_noise(equals, JUDGE)

    assert floor.sentence == (
        "identical processes differ by up to 2.4 % (4 pairs in 41 s, steady.time_python_loop · cpu_time)"
    )
    assert floor.figures == {"pairs": 4, "noise_floor": pytest.approx(0.0238, abs=1e-4)}
    assert list(sight.figures) == ["visible_with_5_pairs", "visible_with_10_pairs", "visible_with_20_pairs"]


def test_detects_half_the_bar_without_any_noise() -> None:
    silence = Shift(0.0, 1e-9, 19, 20)

    assert [round(compute_detectable_effect(silence, pairs, JUDGE), 6) for pairs in FORECAST_PAIRS] == [
        0.025
    ] * 3


def test_detects_less_with_fewer_pairs() -> None:
    noisy = Shift(0.0, 0.01, 19, 20)

    effects = [compute_detectable_effect(noisy, pairs, JUDGE) for pairs in FORECAST_PAIRS]

    assert effects == sorted(effects, reverse=True)
    assert compute_detectable_effect(Shift(0.0, math.inf, 0, 1), 5, JUDGE) == math.inf


def test_predicts_the_effect_the_judge_detects_four_times_in_five() -> None:
    dice, sigma = np.random.default_rng(7), 0.02
    errors = [estimate_shift(dice.normal(0, sigma, 20), dice.normal(0, sigma, 20)).error for _ in range(50)]
    effect = math.log1p(compute_detectable_effect(Shift(0.0, float(np.mean(errors)), 38, 20), 10, JUDGE))

    seen = [
        estimate_shift(dice.normal(0, sigma, 10), dice.normal(effect, sigma, 10)).bounds()[0]
        > math.log1p(JUDGE.bar / 2)
        for _ in range(500)
    ]

    assert 0.74 < np.mean(seen) < 0.86
