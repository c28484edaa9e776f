"""The tail of the samples beside their median."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from perfci.history.verify_stored_verdicts import remove_tail_sentence
from perfci.model import Clock, Interval, Process, Role, Series, TailVerdict, Verdict, VerdictKind
from perfci.verdicts.compare.pairwise_verdict import interim_analysis
from perfci.verdicts.compare.tail_shift import describe_tail
from tests.support.builders import a_process, a_series, a_verdict

TIME = a_series()
SAMPLES = 20


def a_side(
    seed: int, *, slow_share: float, level: float = 1.0, role: Role = Role.BASE, pairs: int = 8
) -> list[Process]:
    """Processes of which some samples take 1.5 seconds, the others ``level``."""
    rng = np.random.default_rng(seed)
    processes = []
    for k in range(pairs):
        is_slow = rng.permutation(SAMPLES) < round(slow_share * SAMPLES)
        samples = np.exp(rng.normal(0, 0.01, SAMPLES)) * np.where(is_slow, 1.5, level)
        processes.append(a_process(*samples, pair=k, role=role))
    return processes


def judged(base: list[Process], head: list[Process], series: Series = TIME) -> Verdict:
    return interim_analysis(series, "base", "head", base, head).verdict


def test_judges_a_tail_that_moved_where_the_median_did_not() -> None:
    verdict = judged(a_side(1, slow_share=0.0), a_side(2, slow_share=0.2, role=Role.HEAD))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.tail is not None
    assert verdict.tail.kind is VerdictKind.REGRESSION
    assert verdict.tail.ratio == pytest.approx(1.5, abs=0.05)
    assert verdict.tail.interval is not None
    assert verdict.tail.interval.lo < verdict.tail.ratio < verdict.tail.interval.hi
    assert re.search(
        r" The tail got worse although the median did not: p90 \+4\S+ %, interval \+\S+ % to \+\S+ %\.$",
        verdict.reason,
    )


def test_the_tail_of_what_should_be_high_is_its_tenth_percentile() -> None:
    tokens = replace(TIME, metric=replace(TIME.metric, unit="tokens/s", direction="higher"))
    base, head = a_side(1, slow_share=0.0), a_side(2, slow_share=0.2, role=Role.HEAD)
    rates = [
        [replace(process, samples=tuple(1 / sample for sample in process.samples)) for process in side]
        for side in (base, head)
    ]

    verdict = judged(rates[0], rates[1], tokens)

    assert verdict.tail is not None
    assert verdict.tail.kind is VerdictKind.REGRESSION
    assert verdict.tail.ratio == pytest.approx(1 / 1.5, abs=0.03)
    assert "although the median did not: p10 −3" in verdict.reason


def test_the_reason_says_which_of_both_moved() -> None:
    base = a_side(1, slow_share=0.0)
    both = [a_process(*(1.3 * sample for sample in process.samples), pair=process.pair) for process in base]
    median_only = a_side(2, slow_share=0.25, level=1.2)

    moved_with_it = judged(base, both)
    did_not_move = judged(a_side(3, slow_share=0.25), median_only)

    assert moved_with_it.kind is did_not_move.kind is VerdictKind.REGRESSION
    assert (
        " The tail moved with the median: p90 +30.0 %, interval +29.9 % to +30.1 %." in moved_with_it.reason
    )
    assert " The tail did not move with the median: p90 " in did_not_move.reason


@pytest.mark.parametrize(
    ("kind", "tail", "sentence"),
    [
        (VerdictKind.UNCHANGED, VerdictKind.IMPROVEMENT, "The tail got better although the median did not: "),
        (
            VerdictKind.INCONCLUSIVE,
            VerdictKind.REGRESSION,
            "The tail got worse, and whether the median did is open: ",
        ),
        (VerdictKind.REGRESSION, VerdictKind.INCONCLUSIVE, ""),
        (VerdictKind.UNCHANGED, VerdictKind.UNCHANGED, ""),
    ],
)
def test_a_sentence_on_the_tail_can_be_taken_out_again(
    kind: VerdictKind, tail: VerdictKind, sentence: str
) -> None:
    verdict = a_verdict(kind=kind, tail=TailVerdict(tail, 0.8, Interval(0.75, 1.004)))

    described = describe_tail(verdict)

    assert described == (sentence and f"{sentence}p90 −20.0 %, interval −25.0 % to +0.4 %.")
    assert remove_tail_sentence(" ".join(filter(None, ["What moved: it.", described, "Not judged: 2."]))) == (
        "What moved: it. Not judged: 2."
    )
    older = described.replace(" %", "%").replace("\N{MINUS SIGN}", "-")
    assert remove_tail_sentence(f"It. {older}") == ("It." if sentence else "It. ")


def test_equal_tails_are_rarely_called_moved() -> None:
    tails = [judged(a_side(k, slow_share=0.1), a_side(k + 500, slow_share=0.1)).tail for k in range(60)]

    assert sum(tail.kind in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT) for tail in tails if tail) <= 1
    assert all(tails)


def test_the_tail_needs_ten_samples_and_a_clock() -> None:
    few = [a_process(1.0, 1.1, 1.2, pair=k) for k in range(5)]
    exact = [a_process(*([7.0] * 12), pair=k, clock=Clock.EXACT) for k in range(5)]

    assert judged(few, few).tail is None
    assert judged(exact, exact).tail is None
