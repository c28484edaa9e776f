"""Expected changes of merged commits, matched with incidents."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from perfci.model import ChangePoint, Incident, IncidentKind, Stage
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.incidents.paging_budget import (
    ExpectedChangeMatch,
    MergedExpectedChange,
    match_expected_changes,
)
from perfci.verdicts.incidents.step_causes import HistoryContext
from tests.support.builders import NOON, PROJECT, a_change_point, a_series, a_sha, a_verdict
from tests.support.level_histories import a_line

MEMORY = a_series("training.Step.track", metric="peak_bytes", unit="bytes")
SPEED = a_series("training.Step.track", metric="tokens", unit="tokens/second", direction="higher")


def merged_expected_change(
    change: float, number: int = 12, match: str = "peak_bytes", **changes: object
) -> MergedExpectedChange:
    merged = MergedExpectedChange(
        a_sha(number), ExpectedChange(match, change, "the cache holds two layers"), "#12"
    )
    return replace(merged, **changes)  # type: ignore[arg-type]


def moved(rel: float, series: object = MEMORY) -> ChangePoint:
    existing = {"commit": a_sha(12), "last_good": a_sha(11), "before": 100.0, "after": 100 * (1 + rel)}
    return a_change_point(series, relative_change=rel, **existing)  # type: ignore[arg-type]


def an_incident(*moves: ChangePoint, good: int = 11, bad: int = 12) -> Incident:
    return Incident("i", IncidentKind.REGRESSION, a_sha(good), a_sha(bad), members=moves or (moved(0.03),))


def answer_to(
    incident: Incident, *merged: MergedExpectedChange, context: HistoryContext | None = None
) -> ExpectedChangeMatch | None:
    context = context or HistoryContext(PROJECT, a_line())
    return match_expected_changes([incident], merged, context).get(incident.id)


def test_an_expected_change_covers_all_that_got_worse() -> None:
    answer = answer_to(
        an_incident(moved(0.03), moved(-0.02, SPEED)),
        merged_expected_change(0.03),
        merged_expected_change(-0.02, match="tokens"),
    )

    assert answer == ExpectedChangeMatch(
        (merged_expected_change(0.03), merged_expected_change(-0.02, match="tokens"))
    )
    assert answer.covers_all


def test_a_larger_change_exceeds_it() -> None:
    answer = answer_to(an_incident(moved(0.07)), merged_expected_change(0.03))

    assert answer == ExpectedChangeMatch((merged_expected_change(0.03),), (moved(0.07),))
    assert not answer.covers_all


def test_other_regressions_exceed_it_and_improvements_do_not() -> None:
    assert answer_to(
        an_incident(moved(0.03), moved(-0.02, SPEED)), merged_expected_change(0.03)
    ).exceeding == (moved(-0.02, SPEED),)
    assert answer_to(an_incident(moved(0.03), moved(0.2, SPEED)), merged_expected_change(0.03)).covers_all


@pytest.mark.parametrize(
    "merged",
    [
        merged_expected_change(0.03, number=11),
        merged_expected_change(0.03, number=13),
        merged_expected_change(0.03, match="time"),
        merged_expected_change(0.03, sha="f" * 40),
    ],
    ids=["the last good commit", "a later one", "another metric", "a commit nobody knows"],
)
def test_an_expected_change_of_another_benchmark_matches_nothing(merged: MergedExpectedChange) -> None:
    assert answer_to(an_incident(), merged) is None


def test_expected_changes_of_two_commits_do_not_add_up() -> None:
    both = an_incident(moved(0.03), moved(-0.02, SPEED), good=10)

    assert not answer_to(
        both, merged_expected_change(0.03, number=11), merged_expected_change(-0.02, match="tokens")
    ).covers_all
    assert answer_to(
        both,
        merged_expected_change(0.03, number=11),
        merged_expected_change(0.03),
        merged_expected_change(-0.02, match="tokens"),
    ).covers_all


@pytest.mark.parametrize(
    ("hours", "covers"), [(10, False), (11, False), (11.5, True), (14, True), (14.5, False)]
)
def test_an_unmeasured_commit_is_placed_by_its_merge_time(hours: float, covers: bool) -> None:
    merged = merged_expected_change(0.03, sha="f" * 40, merged_at=NOON + timedelta(hours=hours))
    history_context = HistoryContext(PROJECT, [item for item in a_line() if item.position not in (12, 13)])

    assert (answer_to(an_incident(good=11, bad=14), merged, context=history_context) is not None) is covers


@pytest.mark.parametrize(("noise", "covers"), [(0.0005, False), (0.04, True)])
def test_a_step_may_exceed_the_expected_change_by_the_noise_of_a_point(noise: float, covers: bool) -> None:
    step = replace(moved(0.045), noise=noise)

    assert answer_to(an_incident(step), merged_expected_change(0.03)).covers_all is covers


def test_fresh_pairs_have_their_own_noise_floor() -> None:
    pairs = a_verdict(
        MEMORY, base=a_sha(11), head=a_sha(12), ratio=1.045, noise_floor=0.02, stage=Stage.CONFIRMATION
    )
    history_context = HistoryContext(PROJECT, a_line(), confirmations={MEMORY: [pairs]})

    assert answer_to(
        an_incident(moved(0.045)), merged_expected_change(0.03), context=history_context
    ).covers_all
    assert not answer_to(
        an_incident(moved(0.051)), merged_expected_change(0.03), context=history_context
    ).covers_all


def test_an_exact_count_has_no_noise() -> None:
    step = replace(moved(0.04), p_value=0.0)

    assert not answer_to(an_incident(step), merged_expected_change(0.03)).covers_all


def test_a_change_from_zero_is_covered_by_no_percentage() -> None:
    began = replace(moved(0.03), before=0.0, after=5.0)

    assert not answer_to(an_incident(began), merged_expected_change(9.0)).covers_all
