"""Due transitions end snoozes and acceptances and verify fixes, and noisy benchmarks are muted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from perfci.model import IncidentState, Series
from perfci.service.incidents.due_transitions import apply_due_transitions
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.mute_benchmarks import mute_noisy_benchmarks
from perfci.service.incidents.triage import require_incident, update_incident
from perfci.store import Store
from perfci.store.incidents import incident_store
from perfci.store.incidents.expected_changes_and_muted_benchmarks import end_mute, load_mutes
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.jobs.notification_destinations import Destination, save_destination
from perfci.store.jobs.notification_queue import load_deliveries
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    acting_as,
)
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile, with_changes
from tests.support.stored_runs import replace_change_points

NOW = NOON + timedelta(days=1)
LATER = NOW + timedelta(days=20)
X = a_series("x")


def current(store: Store, number: int = 1) -> IncidentRecord:
    project = a_project(store)
    with store.read() as tx:
        return require_incident(tx, project, number)


def decide_state(store: Store, wanted: IncidentUpdate, number: int = 1) -> None:
    project, seen = a_project(store), current(store, number)
    with store.begin() as tx:
        update_incident(tx, project, number, seen.revision, wanted, acting_as("user:x", NOW))


def sweep(store: Store, now: datetime = LATER, policy: Policy | None = None) -> int:
    project = a_project(store)
    mute_noisy_benchmarks(store, project, now)
    return apply_due_transitions(store, project, policy or Policy(), now)


def measure(store: Store, series: Series, levels: dict[int, float]) -> None:
    for number, level in levels.items():
        moment, session = NOON + timedelta(hours=number), f"nightly-{number}"
        with store.begin() as tx:
            start_session(tx, PROJECT, session, "history", session, 7, 1, moment)
            run = a_run(
                a_result(series, a_process(level)),
                commit=a_commit(number),
                session=session,
                started_at=moment,
                machine=series.machine,
            )
            find_or_add_run(tx, run)
            finish_session(tx, session, moment)


def test_an_expired_snooze_reopens_the_incident_and_notifies(store: Store) -> None:
    project = a_project(store)
    with store.begin() as tx:
        save_destination(tx, project.id, Destination("hook", "webhook", "https://a.example/"))
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(X)))
    decide_state(store, IncidentUpdate(IncidentState.SNOOZED, snoozed_until=NOW + timedelta(days=2)))

    assert sweep(store, NOW + timedelta(days=1)) == 0
    assert sweep(store) == 1

    assert (current(store).state, current(store).snoozed_until) == (IncidentState.NEW, None)
    with store.read() as tx:
        assert [delivery.state_number for delivery in load_deliveries(tx, project.id)] == [3, 1]


def test_an_expired_acceptance_reopens_the_incident(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(X)))
    decide_state(
        store, IncidentUpdate(IncidentState.ACCEPTED, reason="wanted", accepted_until=NOW + timedelta(days=2))
    )

    sweep(store)

    assert current(store).state is IncidentState.NEW
    assert "that is over" in current(store).reason


def test_an_accepted_incident_that_recovered_stays_accepted(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(X)))
    decide_state(
        store, IncidentUpdate(IncidentState.ACCEPTED, reason="wanted", accepted_until=NOW + timedelta(days=2))
    )
    reconcile(store, NOW, with_changes(a_budgeted_incident("a1", a_move(X)), ongoing=False))

    sweep(store)

    assert (current(store).state, current(store).verified_at) == (IncidentState.ACCEPTED, LATER)


def test_a_fix_is_verified_after_three_points_at_the_old_level(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(X)))
    decide_state(store, IncidentUpdate(IncidentState.FIXED, fix_sha=a_sha(20)))
    measure(store, X, {12: 1.2, 20: 1.01, 21: 1.0})
    assert sweep(store) == 0

    measure(store, X, {22: 0.99})

    assert sweep(store) == 1
    assert (current(store).state, current(store).verified_at) == (IncidentState.FIXED, LATER)
    with store.read() as tx:
        assert incident_store.load_incident_events(tx, current(store).id)[-1].action == "verified"
    assert sweep(store) == 0


def test_a_fix_is_verified_by_the_bar_of_its_project(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(X)))
    decide_state(store, IncidentUpdate(IncidentState.FIXED, fix_sha=a_sha(20)))
    measure(store, X, {20: 1.04, 21: 1.04, 22: 1.04})

    sweep(store, policy=Policy(Rule(bar=0.02)))

    assert current(store).state is IncidentState.NEW


def test_a_fix_that_fails_verification_reopens_the_incident(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(X)))
    decide_state(store, IncidentUpdate(IncidentState.FIXED, fix_sha=a_sha(20)))
    measure(store, X, {20: 1.2, 21: 1.19, 22: 1.21})

    sweep(store)

    record = current(store)
    assert (record.state, record.reason) == (IncidentState.NEW, "fixed, but three newer points are still off")


def test_a_fix_is_verified_by_the_level_of_the_history_where_pairs_ran_slower(store: Store) -> None:
    step = a_move(X)
    reconcile(store, NOW, a_budgeted_incident("a1", replace(step, before=2.0, after=2.4)))
    with store.begin() as tx:
        replace_change_points(tx, PROJECT, X, [step])
    decide_state(store, IncidentUpdate(IncidentState.FIXED, fix_sha=a_sha(20)))
    measure(store, X, {20: 1.2, 21: 1.19, 22: 1.21})

    sweep(store)

    assert current(store).state is IncidentState.NEW


def test_a_fix_without_a_commit_is_verified_from_its_day(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(X)))
    decide_state(store, IncidentUpdate(IncidentState.FIXED))
    measure(store, X, {12: 1.2, 13: 1.2, 14: 1.2, 30: 1.0, 31: 1.0, 32: 1.0})

    sweep(store)

    assert current(store).verified_at == LATER


def test_a_noisy_benchmark_is_muted(store: Store) -> None:
    incidents = [
        a_budgeted_incident(f"i{k}", a_move(X, at=2 + 2 * k), good=1 + 2 * k, bad=2 + 2 * k)
        for k in range(12)
    ]
    reconcile(store, NOW, *incidents[::-1])
    for number in range(1, 11):
        decide_state(
            store, IncidentUpdate(IncidentState.INVALID if number <= 3 else IncidentState.FIXED), number
        )

    sweep(store, NOW)

    project = a_project(store)
    with store.read() as tx:
        (muted,) = load_mutes(tx, project.id, NOW)
    assert (muted.benchmark, muted.reason) == ("x", "3 of its 10 judged incidents were nothing")
    reconcile(store, NOW, *incidents[::-1])
    assert current(store, 12).disposition == "monitored"


def test_reconciling_mutes_noisy_benchmarks_and_applies_due_transitions(store: Store) -> None:
    incidents = [
        a_budgeted_incident(f"i{k}", a_move(X, at=2 + 2 * k), good=1 + 2 * k, bad=2 + 2 * k)
        for k in range(11)
    ]
    reconcile(store, NOW, *incidents[::-1])
    for number in range(1, 11):
        decide_state(store, IncidentUpdate(IncidentState.INVALID), number)
    until = NOW + timedelta(days=2)
    decide_state(store, IncidentUpdate(IncidentState.SNOOZED, snoozed_until=until), 11)

    reconcile(store, LATER, *incidents[::-1])

    project = a_project(store)
    with store.read() as tx:
        (muted,) = load_mutes(tx, project.id, LATER)
    assert muted.reason == "10 of its 10 judged incidents were nothing"
    assert current(store, 11).state is IncidentState.NEW


def test_a_benchmark_unmuted_by_a_person_is_not_muted_again(store: Store) -> None:
    test_a_noisy_benchmark_is_muted(store)
    project = a_project(store)
    with store.begin() as tx:
        end_mute(tx, project.id, "x", "", NOW)

    sweep(store, NOW + timedelta(hours=1))

    with store.read() as tx:
        assert load_mutes(tx, project.id, NOW + timedelta(hours=1)) == []
