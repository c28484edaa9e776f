"""Every verdict carries its interval, noise floor, MDE, pairs used, and how many more would decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from perfci.model import Clock, Process, Verdict, VerdictKind
from perfci.stats.location_shift import Shift
from perfci.stats.statistical_power import (
    estimate_pairs_to_decide,
    estimate_pairs_to_p_value,
    minimum_detectable_effect,
)
from perfci.verdicts.compare.pairwise_verdict import confirmation_verdict, interim_analysis, screening_verdict
from perfci.verdicts.comparison_rule import Rule
from tests.support.builders import a_process, a_series
from tests.support.sampled_proofs import sample_or_whole

TIME, COUNT = a_series(), a_series(metric="operators", unit="count")
JITTER = (0.0, 0.004, -0.004, 0.003, -0.003, 0.001, -0.001, 0.002)


def side(level: float, count: int = 8, *, noise: float = 1.0) -> list[Process]:
    return [a_process(level * (1 + noise * share), pair=k) for k, share in enumerate(JITTER[:count])]


def exact(*values: float) -> list[Process]:
    return [a_process(value, pair=k, clock=Clock.EXACT) for k, value in enumerate(values)]


def confirm(base: Sequence[Process], head: Sequence[Process]) -> Verdict:
    return confirmation_verdict(TIME, "base", "head", base, head)


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (
            confirm(side(1.0), side(1.2)),
            "+20.0 % over 8 pairs, interval +19.9 % to +20.1 %: beyond the threshold of 5.0 %, and half "
            "of it is excluded.",
        ),
        (
            screening_verdict(TIME, "base", "head", side(1.0), side(0.8)),
            "−20.0 % over 8 pairs, interval −20.0 % to −20.0 %: beyond the threshold of 5.0 %, to be "
            "confirmed by an A/B rerun.",
        ),
        (
            confirm(side(1.0), side(1.0)),
            "0.0 % over 8 pairs, interval −0.06 % to +0.06 %: inside the threshold of 5.0 % either way.",
        ),
        (
            confirm(side(1.0, noise=15), side(1.0, noise=-15)),
            "−0.7 % over 8 pairs, interval −5.1 % to +3.9 %: neither beyond the threshold of 5.0 % nor "
            "inside it, about 2 more pairs would decide.",
        ),
        (
            confirm(side(1.0, 1), side(1.5, 1)),
            "+50.0 % over 1 pair: a single pair has no interval, so no verdict is possible yet; "
            "about 4 more pairs would decide.",
        ),
    ],
)
def test_the_reason_states_the_figures(verdict: Verdict, reason: str) -> None:
    assert verdict.reason == reason


@pytest.mark.parametrize(
    ("verdict", "kind", "more"),
    [
        (confirm(side(1.0), side(1.2)), VerdictKind.REGRESSION, 0),
        (confirm(side(1.0), side(0.8)), VerdictKind.IMPROVEMENT, 0),
        (confirm(side(1.0), side(1.0)), VerdictKind.UNCHANGED, 0),
        (confirm(side(1.0, noise=15), side(1.0, noise=-15)), VerdictKind.INCONCLUSIVE, 2),
        (confirmation_verdict(COUNT, "base", "head", exact(7, 7), exact(8, 8)), VerdictKind.REGRESSION, 0),
        (confirmation_verdict(COUNT, "base", "head", exact(7, 7), exact(7, 7)), VerdictKind.UNCHANGED, 0),
        (confirm(side(0.0), side(0.0)), VerdictKind.UNCHANGED, 0),
    ],
)
def test_a_statistical_verdict_has_all_figures(verdict: Verdict, kind: VerdictKind, more: int) -> None:
    existing = (verdict.ratio, verdict.interval, verdict.mde, verdict.p_value)

    assert (verdict.kind, verdict.pairs_to_decide) == (kind, more)
    assert verdict.pairs > 1
    assert None not in existing


def test_a_verdict_without_an_interval_states_how_many_pairs_give_one() -> None:
    verdict = confirm(side(1.0, 1), side(1.5, 1))

    assert (verdict.interval, verdict.pairs, verdict.pairs_to_decide) == (None, 1, 4)


def test_an_early_look_has_a_larger_detectable_effect_than_a_single_analysis() -> None:
    base, head = side(1.0, 5), side(1.01, 5)

    once, early = (
        confirmation_verdict(TIME, "base", "head", base, head),
        interim_analysis(TIME, "base", "head", base, head).verdict,
    )

    assert (once.mde or 0) <= (early.mde or 0)
    assert minimum_detectable_effect(0.03, 8, 0.05, 0.025, 0.005) > minimum_detectable_effect(
        0.03, 8, 0.05, 0.025
    )


@sample_or_whole("comparisons", 100, 400)
def test_repeated_looks_do_not_lower_the_p_value(comparisons: int) -> None:
    rng, told_at_five_percent = np.random.default_rng(11), 0
    rule = Rule(max_pairs=12)
    for _ in range(comparisons):
        levels = np.exp(rng.normal(0, 0.03, (2, 12))) * [[1.0], [1.025]]  # at the null: half the threshold
        pairs, more = 0, 5
        while more:
            pairs += more
            base, head = (
                [a_process(level, pair=k) for k, level in enumerate(side[:pairs])] for side in levels.tolist()
            )
            look = interim_analysis(TIME, "base", "head", base, head, rule=rule)
            verdict, more = look.verdict, look.pairs_to_buy
        told_at_five_percent += (verdict.p_value or 1) < 0.05

    expected, deviation = 0.05 * comparisons, (0.05 * 0.95 * comparisons) ** 0.5
    assert told_at_five_percent <= expected + 2 * deviation


def test_an_ambiguous_mode_matching_needs_more_pairs() -> None:
    plain = Shift(0.0, 0.02, 8, 5)
    open_ = replace(plain, readings=(plain, replace(plain, centre=0.05)))

    assert (estimate_pairs_to_decide(plain, 0.03) or 0) < (estimate_pairs_to_decide(open_, 0.03) or 0)


def test_pairs_to_a_lower_p_value_grow_with_the_square_of_the_deviate() -> None:
    assert estimate_pairs_to_p_value(10, 0.05, 0.000088) == 31  # deviates 1.96 and 3.92: four times the pairs
    assert estimate_pairs_to_p_value(10, 1.0, 0.01) is None
    assert estimate_pairs_to_p_value(10, 0.9, 0.01) is None


def test_a_look_returns_the_shifts_behind_its_verdict() -> None:
    look = interim_analysis(TIME, "base", "head", side(1.0), side(1.0))

    assert look.own_shift == look.shrunk_shift
    assert look.tail is not None
    assert interim_analysis(COUNT, "base", "head", exact(7), exact(7)).tail is None
