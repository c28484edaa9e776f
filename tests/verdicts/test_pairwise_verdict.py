"""From the processes of two commits to one verdict."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.model import Clock, Process, Stage, Verdict, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict, interim_analysis, screening_verdict
from perfci.verdicts.comparison_rule import Rule
from tests.support.builders import a_process, a_series

properties = settings(derandomize=True, deadline=None, max_examples=40)
TIME = a_series()
THROUGHPUT = a_series(metric="tokens_per_s", unit="tokens/s", direction="higher")


def side(
    level: float, pairs: int = 8, *, sd: float = 0.01, seed: int = 0, clock: Clock = Clock.WALL
) -> list[Process]:
    """One process of five samples per pair, lognormal between processes."""
    rng = np.random.default_rng([seed, pairs, int(1000 * level)])
    levels = level * np.exp(rng.normal(0, sd, pairs))
    return [
        a_process(*(float(v * f) for f in (0.99, 1.0, 1.01)), pair=k, clock=clock)
        for k, v in enumerate(levels)
    ]


def exact(*values: float) -> list[Process]:
    return [a_process(value, clock=Clock.EXACT, pair=k) for k, value in enumerate(values)]


def judge(base: Sequence[Process], head: Sequence[Process], **rule: object) -> VerdictKind:
    return confirmation_verdict(TIME, "base", "head", base, head, rule=Rule(**rule)).kind  # type: ignore[arg-type]


def judge_with_aa_history(base: Sequence[Process], head: Sequence[Process], aa: Sequence[float]) -> Verdict:
    """The verdict where A/A runs showed such log ratios."""
    return interim_analysis(
        TIME, "base", "head", base, head, aa_runs=[(ratio, 1) for ratio in aa], stage=Stage.CONFIRMATION
    ).verdict


def test_a_slowdown_of_eight_percent_is_a_regression() -> None:
    verdict = confirmation_verdict(TIME, "base", "head", side(1.0), side(1.08))

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.ratio == pytest.approx(1.08, abs=0.015)
    assert verdict.interval is not None
    assert 1.025 < verdict.interval.lo < 1.08 < verdict.interval.hi
    assert verdict.head_level / verdict.base_level == pytest.approx(verdict.ratio)  # type: ignore[operator]
    assert (verdict.stage, verdict.base, verdict.head, verdict.pairs) == (
        Stage.CONFIRMATION,
        "base",
        "head",
        8,
    )


def test_the_reason_is_one_plain_sentence() -> None:
    base = [a_process(1.0, pair=k) for k in range(8)]
    head = [a_process(1.1, pair=k) for k in range(8)]

    assert confirmation_verdict(TIME, "base", "head", base, head).reason == (
        "+10.0 % over 8 pairs, interval +9.9 % to +10.1 %: "
        "beyond the threshold of 5.0 %, and half of it is excluded."
    )


def test_identical_sides_are_unchanged_and_state_the_detectable_effect() -> None:
    verdict = confirmation_verdict(TIME, "base", "head", side(1.0), side(1.0, seed=1))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.mde is not None
    assert 0.05 < verdict.mde < 0.08


def test_there_is_no_noise_floor_without_three_aa_runs() -> None:
    base, head = side(1.0), side(1.08)

    few, enough = (judge_with_aa_history(base, head, [0.001] * count) for count in (2, 3))

    assert few.noise_floor is None
    assert 0.005 < few.noise < 0.03
    assert enough.noise == enough.noise_floor == pytest.approx(0.0024, abs=0.001)


def test_noise_beyond_the_bar_is_inconclusive_with_the_pairs_that_would_decide() -> None:
    verdict = confirmation_verdict(
        TIME, "base", "head", side(1.0, 5, sd=0.05, seed=2), side(1.0, 5, sd=0.05, seed=3)
    )

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.pairs_to_decide is not None
    assert verdict.pairs_to_decide > 0


def test_screening_is_more_sensitive_than_confirmation() -> None:
    base, head = side(1.0, 6, sd=0.03), side(1.07, 6, sd=0.03, seed=5)

    assert screening_verdict(TIME, "base", "head", base, head).kind is VerdictKind.REGRESSION
    assert confirmation_verdict(TIME, "base", "head", base, head).kind is VerdictKind.INCONCLUSIVE


def test_strict_requires_the_whole_interval_beyond_the_bar() -> None:
    base = [a_process(1.0, pair=k) for k in range(9)]
    head = [a_process(1.04 + 0.005 * k, pair=k) for k in range(9)]

    assert judge(base, head) is VerdictKind.REGRESSION
    assert judge(base, head, strict=True) is VerdictKind.INCONCLUSIVE


def test_a_throughput_that_falls_is_a_regression() -> None:
    verdict = confirmation_verdict(THROUGHPUT, "base", "head", side(100.0), side(90.0))

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.ratio == pytest.approx(0.9, abs=0.01)
    assert verdict.interval is not None
    assert verdict.interval.lo < 0.9 < verdict.interval.hi


def test_a_series_with_noisy_aa_runs_raises_its_own_bar() -> None:
    base, head = side(1.0), side(1.08)

    noisy = judge_with_aa_history(base, head, [0.1, -0.12, 0.09])

    assert noisy.kind is VerdictKind.INCONCLUSIVE
    assert noisy.noise_floor == pytest.approx(0.284, abs=0.001)
    assert (
        "the threshold of 28.4 %, raised from 5.0 % to what its A/A runs show by themselves, nor"
        in noisy.reason
    )
    assert judge_with_aa_history(base, head, [0.001, -0.002, 0.001]).kind is VerdictKind.REGRESSION


def test_one_bad_night_of_ten_does_not_blind_a_series() -> None:
    nights = [0.008, -0.01, 0.006, 0.004, -0.008, 0.012, -0.003, 0.009, -0.007, math.log(1.35)]

    assert judge_with_aa_history(side(1.0), side(1.08), nights).kind is VerdictKind.REGRESSION


def test_a_raised_bar_does_not_make_more_changes_unchanged() -> None:
    assert judge_with_aa_history(side(1.0), side(1.0, seed=1), [0.1, -0.1, 0.1]).kind is VerdictKind.UNCHANGED
    assert judge_with_aa_history(side(1.0), side(1.2), [0.2, -0.2, 0.2]).kind is VerdictKind.INCONCLUSIVE


def test_a_noise_prior_decides_sooner() -> None:
    base, head = side(1.0, 3, sd=0.03, seed=8), side(1.1, 3, sd=0.03, seed=9)

    alone = screening_verdict(TIME, "base", "head", base, head)
    informed = screening_verdict(TIME, "base", "head", base, head, prior_sd=0.02)

    assert alone.interval is not None
    assert informed.interval is not None
    assert informed.interval.hi - informed.interval.lo < alone.interval.hi - alone.interval.lo


def test_matches_pairs_by_number_and_leaves_out_flagged_processes() -> None:
    base, head = side(1.0, 8), side(1.0, 8, seed=1)
    head[2] = a_process(9.0, pair=2, flags=("throttled",))

    verdict = confirmation_verdict(TIME, "base", "head", base, list(reversed(head)))

    assert (verdict.kind, verdict.pairs) == (VerdictKind.UNCHANGED, 7)
    assert verdict.reason.endswith("Not judged: 1 of 16 processes, flagged throttled.")


def test_a_single_pair_gives_a_ratio_and_no_interval() -> None:
    verdict = screening_verdict(TIME, "base", "head", side(1.0, 1), side(1.5, 1))

    assert (verdict.kind, verdict.interval, verdict.mde) == (VerdictKind.INCONCLUSIVE, None, None)
    assert verdict.ratio == pytest.approx(1.5, abs=0.05)


def test_repeating_an_analysis_gives_the_same_verdict() -> None:
    base, head = side(1.0, 8, sd=0.03), side(1.04, 8, sd=0.03)

    assert interim_analysis(TIME, "base", "head", base, head) == interim_analysis(
        TIME, "base", "head", base, head
    )


@properties
@given(st.floats(0.8, 1.25), st.floats(1e-5, 1e5), st.integers(0, 1000))
def test_the_unit_does_not_matter(effect: float, unit: float, seed: int) -> None:
    base, head = side(1.0, 6, seed=seed), side(effect, 6, seed=seed + 1)
    scaled = [
        [a_process(*(unit * s for s in p.samples), pair=p.pair) for p in each_side]
        for each_side in (base, head)
    ]

    assert judge(base, head) is judge(scaled[0], scaled[1])


@properties
@given(st.floats(0.8, 1.25), st.integers(0, 1000))
def test_swapping_the_commits_swaps_regression_and_improvement(effect: float, seed: int) -> None:
    base, head = side(1.0, 6, seed=seed), side(effect, 6, seed=seed + 1)
    opposite = {
        VerdictKind.REGRESSION: VerdictKind.IMPROVEMENT,
        VerdictKind.IMPROVEMENT: VerdictKind.REGRESSION,
    }

    forth, back = judge(base, head), judge(head, base)

    assert back is opposite.get(forth, forth)


@properties
@given(st.floats(0.8, 1.25), st.integers(0, 1000))
def test_a_rate_is_judged_as_the_time_it_takes(effect: float, seed: int) -> None:
    base, head = side(1.0, 6, seed=seed), side(effect, 6, seed=seed + 1)
    rates = [
        [a_process(*(1 / s for s in p.samples), pair=p.pair) for p in each_side] for each_side in (base, head)
    ]

    times, rate = judge(base, head), confirmation_verdict(THROUGHPUT, "base", "head", rates[0], rates[1]).kind

    assert times is rate


def test_judges_a_process_whose_flag_only_says_how_it_was_started() -> None:
    base = [a_process(1.0 + n / 1000, pair=n, flags=("spawned: 2 threads are running",)) for n in range(6)]
    head = [a_process(1.0 + n / 1000, pair=n, flags=("spawned: 2 threads are running",)) for n in range(6)]

    assert screening_verdict(a_series(), "a" * 40, "b" * 40, base, head).pairs == 6
