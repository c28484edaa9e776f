"""How verdicts were reached is stored exactly."""

import math
from datetime import timedelta

import pytest

from perfci.store import Store, verdicts_and_change_points
from perfci.store.verdict_decision_records import (
    AA_WINDOW,
    AAResult,
    DecisionRecord,
    LookRecord,
    add_verdict_decision_records,
    load_aa_results_by_series,
    load_latest_verdict_id,
    load_verdict_decision_records,
)
from perfci.store.writes import measured_sessions
from tests.support.builders import NOON, PROJECT, a_series, a_verdict


@pytest.fixture
def verdict_ids(store: Store) -> list[int]:
    """Three verdicts on equals, one after the other."""
    with store.begin() as tx:
        ids = []
        for number, ratio in enumerate((1.01, 0.98, None)):
            measured_sessions.start_session(tx, PROJECT, f"aa-{number}", "aa", "spec", 7, 0, NOON)
            moment = NOON + timedelta(hours=number)
            verdict = a_verdict(ratio=ratio, pairs=5 + number)
            ids += verdicts_and_change_points.add_verdicts(tx, PROJECT, f"aa-{number}", [verdict], moment)
        return ids


def test_a_decision_comes_back_bit_for_bit(store: Store, verdict_ids: list[int]) -> None:
    looks = (
        LookRecord(5, 5, "inconclusive", 0.0123456789012345678, 1, math.pi / 100, 7.1),
        LookRecord(6, 6, "unchanged", 0.025),
    )
    decision = DecisionRecord("pairs", {"bar": 0.05, "looks": [5, 6]}, 3, looks, 0.01, "perfci 0.1.0")

    with store.begin() as tx:
        add_verdict_decision_records(tx, {verdict_ids[0]: decision})

    with store.read() as tx:
        assert load_verdict_decision_records(tx, PROJECT) == {verdict_ids[0]: decision}
        assert load_verdict_decision_records(tx, "another/project") == {}


def test_loads_the_results_of_aa_runs_up_to_any_verdict(store: Store, verdict_ids: list[int]) -> None:
    with store.read() as tx:
        before, after = (
            load_aa_results_by_series(tx, PROJECT, verdict_ids[0]),
            load_aa_results_by_series(tx, PROJECT, load_latest_verdict_id(tx)),
        )

    assert before == {a_series(): [AAResult(math.log(1.01), 5)]}
    assert after == {a_series(): [AAResult(math.log(1.01), 5), AAResult(math.log(0.98), 6)]}


def test_an_aa_run_counts_for_two_months(store: Store, verdict_ids: list[int]) -> None:
    with store.begin() as tx:
        later = NOON + AA_WINDOW + timedelta(minutes=30)
        verdicts_and_change_points.add_verdicts(tx, PROJECT, "aa-0", [a_verdict(ratio=1.02, pairs=7)], later)

    with store.read() as tx:
        assert load_aa_results_by_series(tx, PROJECT) == {
            a_series(): [AAResult(math.log(0.98), 6), AAResult(math.log(1.02), 7)]
        }
        assert load_aa_results_by_series(tx, PROJECT, verdict_ids[0]) == {
            a_series(): [AAResult(math.log(1.01), 5)]
        }


def test_there_are_no_aa_results_before_the_first_verdict(store: Store) -> None:
    with store.read() as tx:
        assert (load_latest_verdict_id(tx), load_aa_results_by_series(tx, PROJECT, 0)) == (0, {})
