"""Pages that incidents get within the budget of a week."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.model import Incident, IncidentKind, PairTest
from perfci.verdicts.incidents.paging_budget import (
    FALSE_PAGE_RATE,
    Disposition,
    ExpectedChangeMatch,
    apply_paging_budget,
    compute_lord_level,
)
from tests.support.builders import NOON, a_change_point, a_sha

NUMBERS = {a_sha(number): number for number in range(1, 41)}


def an_incident(number: int = 1, p_value: float = 1e-12, **changes: object) -> Incident:
    incident = Incident(
        id=f"incident-{number}",
        kind=IncidentKind.REGRESSION,
        last_good=a_sha(number),
        commit=a_sha(number),
        members=(a_change_point(),),
        p_value=p_value,
        settled=True,
        ongoing=True,
        measured_at=NOON,
    )
    return replace(incident, **changes)  # type: ignore[arg-type]


def allocate(incidents: list[Incident], *, series: int = 100, pages_per_week: int = 5) -> list[Disposition]:
    pages = apply_paging_budget(incidents, NUMBERS, series_count=series, pages_per_week=pages_per_week)
    return [page.disposition for page in pages]


def test_gives_the_pages_of_a_week_to_the_first_incidents() -> None:
    incidents = [an_incident(number) for number in (3, 1, 2)]

    assert allocate(incidents, pages_per_week=2) == [
        Disposition.HELD_BACK,
        Disposition.PAGE,
        Disposition.PAGE,
    ]


def test_an_expected_incident_spends_no_page_and_takes_none_back() -> None:
    incidents = [an_incident(1), an_incident(2, p_value=1e-3), an_incident(3)]

    pages = apply_paging_budget(
        incidents,
        NUMBERS,
        series_count=10,
        pages_per_week=1,
        expected_change_matches={"incident-1": ExpectedChangeMatch(())},
    )

    assert [(page.disposition, page.page_number, page.needs_attention) for page in pages] == [
        (Disposition.PAGE, 0, False),
        (Disposition.PAGE, 1, True),
        (Disposition.HELD_BACK, 0, False),
    ]


def test_a_page_is_never_taken_back_by_a_later_incident() -> None:
    first = an_incident(1, p_value=1e-6)

    assert allocate([first], pages_per_week=1) == [Disposition.PAGE]
    assert allocate([first, an_incident(2)], pages_per_week=1) == [Disposition.PAGE, Disposition.HELD_BACK]


def test_the_next_week_has_a_budget_of_its_own() -> None:
    later = an_incident(2, measured_at=NOON + timedelta(days=7))

    assert allocate([an_incident(1), later], pages_per_week=1) == [Disposition.PAGE, Disposition.PAGE]


def test_with_many_series_the_same_evidence_is_weak() -> None:
    incident = an_incident(p_value=1e-4)

    assert allocate([incident], series=10) == [Disposition.PAGE]
    assert allocate([incident], series=10_000) == [Disposition.TOO_WEAK]


def test_a_shift_shared_by_most_suites_waits_for_its_pairs_and_then_is_a_note() -> None:
    shared = an_incident(1, kind=IncidentKind.MACHINE, cause="machine_wide", pair_to_measure=("a", "b"))

    assert allocate([shared]) == [Disposition.WAITING]
    assert allocate([replace(shared, pair_to_measure=None)]) == [Disposition.NOTE]


def test_one_or_two_points_wait_and_a_driver_update_is_a_note() -> None:
    incidents = [an_incident(1, settled=False), an_incident(2, kind=IncidentKind.ENVIRONMENT)]

    assert allocate(incidents) == [Disposition.WAITING, Disposition.NOTE]


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=40), st.integers(0, 6))
def test_every_incident_gets_a_disposition_and_no_level_exceeds_the_rate(
    p_values: list[float], most: int
) -> None:
    incidents = [an_incident(number, p) for number, p in enumerate(p_values, start=1)]

    result = apply_paging_budget(incidents, NUMBERS, series_count=1, pages_per_week=most)

    assert [report.incident for report in result] == incidents
    pages = [report for report in result if report.disposition is Disposition.PAGE]
    assert len(pages) <= most
    assert all(page.incident.p_value <= FALSE_PAGE_RATE * max(1, len(pages)) for page in pages)


def test_lord_holds_the_share_of_false_pages_where_nothing_ever_moves() -> None:
    chance = random.Random(7)
    weeks = [[an_incident(number, chance.random()) for number in range(1, 21)] for _ in range(1000)]

    false = sum(Disposition.PAGE in allocate(week, series=1) for week in weeks)

    assert false / len(weeks) <= FALSE_PAGE_RATE + 3 * math.sqrt(
        FALSE_PAGE_RATE * (1 - FALSE_PAGE_RATE) / len(weeks)
    )


def test_the_levels_of_a_week_without_a_page_spend_half_of_the_rate() -> None:
    levels = [compute_lord_level(rank, []) for rank in range(1, 5000)]

    assert levels == sorted(levels, reverse=True)
    assert sum(levels) == pytest.approx(FALSE_PAGE_RATE / 2, rel=0.01)


def test_a_page_pays_for_the_next_ones() -> None:
    before, after = compute_lord_level(100, []), compute_lord_level(100, [99])

    assert before < 1e-4
    assert after == pytest.approx(before + compute_lord_level(1, []))


# ------------------------------------------------------------------ confirmations


def a_confirmed_incident(number: int, p_value: float = 1e-3, **changes: object) -> Incident:
    """An incident that the history hardly shows and fresh pairs confirmed."""
    test = PairTest(number, p_value)
    return an_incident(
        number,
        **{"p_value": 0.9, "pair_tests": (test,), "confirming_tests": (test,)} | changes,  # type: ignore[arg-type]
    )


@given(st.integers(1, 40), st.integers(1, 100_000))
def test_a_confirmed_incident_pages_whatever_the_commit_of_the_week_and_the_number_of_series(
    number: int, series: int
) -> None:
    assert allocate([a_confirmed_incident(number)], series=series) == [Disposition.PAGE]


@given(st.floats(1e-12, 1.0), st.floats(1e-12, 1.0))
def test_a_confirmed_incident_never_withdraws_a_page(p_value: float, fresh_p_value: float) -> None:
    before, test = an_incident(7, p_value), PairTest(3, fresh_p_value)
    after = replace(before, pair_tests=(test,), confirming_tests=(test,))

    (alone,), (confirmed,) = allocate([before]), allocate([after])

    assert confirmed is Disposition.PAGE or alone is not Disposition.PAGE


def test_many_retests_of_a_week_need_more_evidence_for_each() -> None:
    retested = [a_confirmed_incident(number, 0.009) for number in range(1, 4)]
    doubtful = [
        a_confirmed_incident(number, 0.2, kind=IncidentKind.IMPROVEMENT, confirming_tests=())
        for number in range(1, 4)
    ]

    assert allocate(retested) == [Disposition.PAGE] * 3
    assert allocate([*doubtful, a_confirmed_incident(4, 0.009)])[-1] is Disposition.TOO_WEAK


def test_refuted_steps_take_no_page_from_a_confirmed_one() -> None:
    refuted = [
        a_confirmed_incident(number, 0.99, kind=IncidentKind.MACHINE, confirming_tests=())
        for number in range(1, 30)
    ]

    assert allocate([*refuted, a_confirmed_incident(30, 0.009)])[-1] is Disposition.PAGE


def test_an_exact_count_needs_no_other_evidence() -> None:
    certain = a_confirmed_incident(5, 0.0)

    assert allocate([certain], series=10_000) == [Disposition.PAGE]


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(1e-9, 1.0)), min_size=1, max_size=12))
def test_pairs_that_come_later_take_no_page_back(later: list[tuple[int, float]]) -> None:
    doubtful = [
        an_incident(number, 0.9, id=f"later-{at}", pair_tests=(PairTest(100 + at, p_value),))
        for at, (number, p_value) in enumerate(later)
    ]

    assert allocate([a_confirmed_incident(20, 0.009), *doubtful])[0] is Disposition.PAGE
