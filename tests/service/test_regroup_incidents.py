"""Merging, splitting and moving the boundary of incidents; evaluations keep what a person decided."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perfci.model import IncidentState, PerfciError, Series
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.regroup_incidents import (
    compute_shifted_commit_range,
    merge_incidents,
    move_boundary,
    split_off_members,
)
from perfci.service.incidents.triage import StaleRevision, require_incident, update_incident
from perfci.store import Store
from perfci.store.incidents.incident_records import IncidentMember, IncidentRecord
from perfci.store.incidents.incident_store import load_incident_members
from perfci.store.writes.find_or_add_rows import ensure_series_id
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
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
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

NOW = NOON + timedelta(days=3)
ME = acting_as("user:github/1", NOW + timedelta(hours=1))


def current(store: Store, number: int = 1) -> IncidentRecord:
    project = a_project(store)
    with store.read() as tx:
        return require_incident(tx, project, number)


def members_now(store: Store, number: int = 1) -> list[IncidentMember]:
    row_id = current(store, number).id
    with store.read() as tx:
        return load_incident_members(tx, row_id)


def id_of(store: Store, series: Series) -> int:
    project = a_project(store)
    with store.begin() as tx:
        return ensure_series_id(tx, project.id, series)


def measure(store: Store, series: Series, step: int, length: int = 24) -> None:
    """A history that doubles at a commit, a session for each commit."""
    for number in range(1, length + 1):
        moment, session = NOON + timedelta(hours=number), f"nightly-{series.benchmark.name}-{number}"
        level = (2.0 if number >= step else 1.0) * (1 + number % 3 / 1000)
        with store.begin() as tx:
            start_session(tx, PROJECT, session, "history", session, 7, 1, moment)
            find_or_add_run(
                tx,
                a_run(
                    a_result(series, a_process(level)),
                    commit=a_commit(number),
                    session=session,
                    started_at=moment,
                    machine=series.machine,
                ),
            )
            finish_session(tx, session, moment)


def test_a_merge_survives_evaluations_that_derive_the_parts(store: Store) -> None:
    both = (
        a_budgeted_incident("b1", a_move("y", at=13), good=11, bad=13),
        a_budgeted_incident("a1", a_move("x")),
    )
    reconcile(store, NOW, *both)
    project = a_project(store)

    with store.begin() as tx:
        record = merge_incidents(tx, project, 1, 1, {2: 1}, ME)
    after = reconcile(store, NOW + timedelta(hours=2), *both)

    assert (record.series_count, record.pinned, after.new) == (2, True, ())
    assert [member.added_by for member in sorted(members_now(store, 1), key=lambda item: item.commit)] == [
        "perfci",
        ME.actor.name,
    ]
    assert (current(store, 2).state, current(store, 2).duplicate_number) == (IncidentState.DUPLICATE, 1)


def test_a_merged_incident_cannot_be_edited(store: Store) -> None:
    reconcile(
        store,
        NOW,
        a_budgeted_incident("b1", a_move("y", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x")),
    )
    project = a_project(store)
    with store.begin() as tx:
        merge_incidents(tx, project, 1, 1, {2: 1}, ME)

    gone = "Incident 2 was merged into 1, which has its series: change that one"
    with pytest.raises(PerfciError, match=gone), store.begin() as tx:
        merge_incidents(tx, project, 2, 2, {1: 2}, ME)
    with pytest.raises(PerfciError, match=gone), store.begin() as tx:
        merge_incidents(tx, project, 1, 2, {2: 2}, ME)
    with pytest.raises(PerfciError, match=gone), store.begin() as tx:
        move_boundary(tx, project, 2, 2, a_sha(18), a_sha(19), ME)

    assert (current(store, 1).state, current(store, 1).series_count) == (IncidentState.NEW, 2)


def test_merging_into_a_duplicate_is_refused(store: Store) -> None:
    reconcile(
        store,
        NOW,
        a_budgeted_incident("b1", a_move("y", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x")),
    )
    project = a_project(store)
    with store.begin() as tx:
        update_incident(tx, project, 2, 1, IncidentUpdate(IncidentState.DUPLICATE, duplicate_of=1), ME)

    with (
        pytest.raises(PerfciError, match="Incident 2 is a duplicate of 1: merge into that one"),
        store.begin() as tx,
    ):
        merge_incidents(tx, project, 2, 2, {1: 1}, ME)


def test_merging_ends_a_snooze(store: Store) -> None:
    reconcile(
        store,
        NOW,
        a_budgeted_incident("b1", a_move("y", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x")),
    )
    project, tomorrow = a_project(store), NOW + timedelta(days=1)
    with store.begin() as tx:
        update_incident(tx, project, 2, 1, IncidentUpdate(IncidentState.SNOOZED, snoozed_until=tomorrow), ME)
        merge_incidents(tx, project, 1, 1, {2: 2}, ME)

    assert current(store, 2).snoozed_until is None


def test_a_split_survives_evaluations(store: Store) -> None:
    whole = a_budgeted_incident("a1", a_move("x"), a_move("y"), a_move("z"))
    reconcile(store, NOW, whole)
    project, y = a_project(store), id_of(store, a_series("y"))

    with store.begin() as tx:
        left, new = split_off_members(tx, project, 1, 1, {y}, ME)
    after = reconcile(store, NOW + timedelta(hours=2), whole)

    assert (left.headline[:12], new.number, new.headline[:12]) == ("x and 1 more", 2, "y got worse,")
    assert (after.new, [member.series_id for member in members_now(store, 2)]) == ((), [y])


def test_a_split_part_keeps_the_state_reason_and_end(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x"), a_move("y")))
    project, y, until = a_project(store), id_of(store, a_series("y")), NOW + timedelta(days=2)
    with store.begin() as tx:
        update_incident(
            tx, project, 1, 1, IncidentUpdate(IncidentState.ACCEPTED, reason="bf16", accepted_until=until), ME
        )

    with store.begin() as tx:
        _, new = split_off_members(tx, project, 1, 2, {y}, ME)

    assert (new.state, new.reason, new.accepted_until) == (IncidentState.ACCEPTED, "bf16", until)


def test_each_part_of_a_split_describes_its_largest_change(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x", rel=0.4), a_move("y", rel=0.2)))
    project, x = a_project(store), id_of(store, a_series("x"))

    with store.begin() as tx:
        left, new = split_off_members(tx, project, 1, 1, {x}, ME)

    largest = [entry.detail["largest"] for entry in (left, new)]
    assert largest == ["y got 20.0 % slower", "x got 40.0 % slower"]
    assert [entry.detail["next_measurement"] for entry in (left, new)] == [None, None]


def test_splitting_off_all_or_no_members_is_refused(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x"), a_move("y")))
    project = a_project(store)

    with pytest.raises(PerfciError, match="and 0 would go"), store.begin() as tx:
        split_off_members(tx, project, 1, 1, set(), ME)


def test_moving_a_boundary_reports_series_that_fit_worse(store: Store) -> None:
    series = a_series("x")
    measure(store, series, step=12)
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(series)))
    project = a_project(store)

    with store.begin() as tx:
        outcome = move_boundary(tx, project, 1, 1, a_sha(8), a_sha(9), ME)

    assert (outcome.weaker_series_count, outcome.record.commit, outcome.record.pinned) == (1, a_sha(9), True)
    assert outcome.tests[0].new.sigmas < outcome.tests[0].old.sigmas
    assert members_now(store)[0].commit == a_sha(12)


def test_moving_a_boundary_there_and_back_leaves_every_size_as_it_was(store: Store) -> None:
    early, late = a_series("early"), a_series("late")
    measure(store, early, step=12)
    measure(store, late, step=18)
    reconcile(
        store,
        NOW,
        a_budgeted_incident("a1", a_move(early)),
        a_budgeted_incident("b1", a_move(late, at=18), good=17, bad=18),
    )
    project = a_project(store)
    with store.begin() as tx:
        merge_incidents(tx, project, 1, 1, {2: 1}, ME)
    before = current(store), members_now(store)

    for steps in (-1, 1):
        with store.begin() as tx:
            record = require_incident(tx, project, 1)
            good, bad = compute_shifted_commit_range(tx, project, record, steps)
            move_boundary(tx, project, 1, record.revision, good, bad, ME)

    assert (before[0].last_good, before[0].commit) == (a_sha(11), a_sha(18))
    assert members_now(store) == before[1]
    assert (current(store).headline, current(store).commit) == (before[0].headline, before[0].commit)


def test_each_part_of_a_split_has_the_range_of_its_own_members(store: Store) -> None:
    early, late = a_series("early"), a_series("late")
    measure(store, early, step=12)
    measure(store, late, step=18)
    reconcile(
        store,
        NOW,
        a_budgeted_incident("a1", a_move(early)),
        a_budgeted_incident("b1", a_move(late, at=18), good=17, bad=18),
    )
    project, late_id = a_project(store), id_of(store, late)
    with store.begin() as tx:
        merged = merge_incidents(tx, project, 1, 1, {2: 1}, ME)

    with store.begin() as tx:
        left, new = split_off_members(tx, project, 1, merged.revision, {late_id}, ME)

    ranges = [(part.last_good, part.commit) for part in (left, new)]
    assert ranges == [(a_sha(11), a_sha(12)), (a_sha(17), a_sha(18))]
    assert [[c["commit"] for c in part.detail["candidate_commits"]] for part in (left, new)] == [
        [a_sha(12)],
        [a_sha(18)],
    ]


def test_moving_a_boundary_back_to_the_step_reports_no_worse_fit(store: Store) -> None:
    series = a_series("x")
    measure(store, series, step=12)
    reconcile(store, NOW, a_budgeted_incident("a1", a_move(series, at=10), good=9, bad=10))
    project = a_project(store)

    with store.begin() as tx:
        good, bad = compute_shifted_commit_range(tx, project, require_incident(tx, project, 1), 2)
        outcome = move_boundary(tx, project, 1, 1, good, bad, ME)

    assert (bad, outcome.weaker_series_count) == (a_sha(12), 0)
    assert members_now(store)[0].relative_change == pytest.approx(0.2)


def test_moving_a_boundary_by_zero_commits_is_refused(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))
    project = a_project(store)

    with pytest.raises(PerfciError, match="Incident 1 cannot move by 0 commits"), store.begin() as tx:
        compute_shifted_commit_range(tx, project, require_incident(tx, project, 1), 0)


def test_merging_at_a_stale_revision_is_refused(store: Store) -> None:
    reconcile(
        store,
        NOW,
        a_budgeted_incident("b1", a_move("y", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x")),
    )
    project = a_project(store)

    with pytest.raises(StaleRevision), store.begin() as tx:
        merge_incidents(tx, project, 1, 1, {2: 7}, ME)

    assert (current(store, 1).revision, current(store, 2).state) == (1, IncidentState.NEW)
