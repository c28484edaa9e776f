"""Stored incidents follow every evaluation and keep what people changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.orm import Session

from perfci.model import IncidentKind, IncidentState
from perfci.service.incidents import reconcile_incidents as reconciliation
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.reconcile_incidents import plan_incident_writes, reconcile_incidents
from perfci.service.incidents.stored_incident_planner import NO_LONGER_SEEN, IncidentWrite
from perfci.service.incidents.triage import update_incident
from perfci.store import Store, open_store
from perfci.store.incidents import incident_store
from perfci.store.incidents.commit_impacts_page import load_commit_impacts_page
from perfci.store.incidents.expected_changes_and_muted_benchmarks import add_mute
from perfci.store.incidents.incident_lists import list_incidents
from perfci.store.incidents.incident_records import IncidentEvent, IncidentMember, IncidentRecord, Mute
from perfci.store.incidents.incident_store import load_incident_members
from perfci.store.jobs.notification_destinations import Destination, save_destination
from perfci.store.jobs.notification_queue import load_deliveries
from perfci.verdicts.incidents.paging_budget import Disposition
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import NOON, a_sha, acting_as
from tests.support.evaluations import (
    a_budgeted_incident,
    a_move,
    a_project,
    an_evaluation,
    measured_project,
    reconcile,
    with_changes,
)

NOW = NOON + timedelta(days=3)
LATER = NOW + timedelta(hours=1)


def current(store: Store, number: int = 1) -> IncidentRecord:
    project = a_project(store)
    with store.read() as tx:
        record = incident_store.find_incident(tx, project.id, number)
    assert record is not None
    return record


def current_members(store: Store, number: int = 1) -> list[IncidentMember]:
    with store.read() as tx:
        return load_incident_members(tx, current(store, number).id)


def history(store: Store, number: int = 1) -> list[IncidentEvent]:
    with store.read() as tx:
        return incident_store.load_incident_events(tx, current(store, number).id)


def subscribe(store: Store, name: str = "team", **routes: object) -> None:
    project = a_project_id(store)
    with store.begin() as tx:
        save_destination(tx, project, Destination(name, "webhook", "https://hook.example/", routes=routes))


def a_project_id(store: Store) -> int:
    return a_project(store).id


def sent(store: Store) -> list[tuple[int, int, str]]:
    project = a_project_id(store)
    with store.read() as tx:
        return [
            (delivery.number, delivery.state_number, delivery.body["state"])
            for delivery in load_deliveries(tx, project)
        ]


def test_an_incident_gets_a_number_and_keeps_it_when_its_range_changes(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x"), a_move("y")))

    reconcile(store, LATER, a_budgeted_incident("a2", a_move("x"), a_move("y"), good=10))

    record = current(store)
    assert (record.number, record.derived_id, record.last_good, record.state) == (1, "a2", a_sha(10), "new")
    assert history(store)[-1].text == "more points show the range better"
    assert reconcile(store, LATER, a_budgeted_incident("a2", a_move("x"), a_move("y"), good=10)).changed == ()


def test_texts_of_an_evaluation_are_stored_for_the_pages(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x"), a_move("y")))

    record = current(store)
    assert record.headline == (
        "x and 1 more series got worse, up to +20.0 %, at 0000000ccc Change number 12 (2 Mar 2026)"
    )
    assert record.detail["candidate_commits"][0]["commit"] == a_sha(12)


def test_an_evaluation_adds_changes_and_removes_members(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x"), a_move("y")))

    reconcile(store, LATER, a_budgeted_incident("a1", a_move("x", rel=0.3), a_move("z")))

    assert [(member.relative_change, member.dropped_at) for member in current_members(store)] == [
        (pytest.approx(0.3), None),
        (pytest.approx(0.2), None),
    ]
    assert current(store).series_count == 2


def test_an_untouched_incident_that_disappears_becomes_invalid(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1"))

    assert reconcile(store, LATER).gone == (1,)

    record = current(store)
    assert (record.state, record.reason, record.gone_at) == (IncidentState.INVALID, NO_LONGER_SEEN, LATER)


def test_an_invalid_incident_that_reappears_is_new_and_notifies_once(store: Store) -> None:
    subscribe(store)
    reconcile(store, NOW, a_budgeted_incident("a1"))
    reconcile(store, NOW)

    reconcile(store, LATER, a_budgeted_incident("a1"))

    assert (current(store).state, current(store).gone_at) == (IncidentState.NEW, None)
    assert sent(store) == [(1, 1, "new")]


def test_an_incident_in_work_keeps_its_state_when_it_disappears(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1"))
    with store.begin() as tx:
        incident_store.update_incident(
            tx, current(store).id, 1, {"state": "investigating", "triaged_at": NOW}
        )

    reconcile(store, LATER)

    assert (current(store).state, current(store).gone_at) == (IncidentState.INVESTIGATING, LATER)


def test_a_regression_that_came_with_a_new_driver_stays_the_same_incident(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1"))

    reconcile(
        store, LATER, a_budgeted_incident("b7", kind=IncidentKind.ENVIRONMENT, disposition=Disposition.NOTE)
    )

    assert (current(store).kind, current(store).disposition, current(store).is_open) == (
        "environment",
        "note",
        False,
    )
    assert [(event.before, event.after) for event in history(store)][-1] == ("regression", "environment")


def test_notifies_when_an_incident_begins_to_page_and_only_then(store: Store) -> None:
    subscribe(store)
    reconcile(store, NOW, a_budgeted_incident("a1", disposition=Disposition.HELD_BACK))
    assert sent(store) == []

    for _ in range(3):
        reconcile(store, LATER, a_budgeted_incident("a1"))

    assert sent(store) == [(1, 1, "new")]
    assert current(store).paged_at == LATER


def test_a_first_evaluation_of_an_old_history_notifies_nobody(store: Store) -> None:
    subscribe(store)

    reconcile(store, NOW + timedelta(days=90), a_budgeted_incident("a1"))
    reconcile(
        store,
        NOW + timedelta(days=90),
        a_budgeted_incident("a1"),
        a_budgeted_incident("b1", a_move("y", at=30), good=29, bad=30),
    )

    assert sent(store) == [(2, 1, "new")]


def test_a_muted_benchmark_opens_incidents_that_notify_nobody(store: Store) -> None:
    subscribe(store)
    project = a_project_id(store)
    with store.begin() as tx:
        add_mute(tx, project, Mute("x", "", 0.4, "too noisy", NOON, NOW + timedelta(days=9), "local"))

    reconcile(
        store,
        NOW,
        a_budgeted_incident("b1", a_move("x", at=20), a_move("y", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x")),
    )

    assert (current(store, 1).disposition, current(store, 1).is_open, current(store, 2).is_open) == (
        "monitored",
        False,
        True,
    )
    assert sent(store) == [(2, 1, "new")]


def test_impacts_keep_a_change_that_a_later_improvement_hides(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x", at=12)))
    gain = a_budgeted_incident(
        "b1",
        a_move("x", at=20, rel=-0.3),
        good=19,
        bad=20,
        kind=IncidentKind.IMPROVEMENT,
        disposition=Disposition.NOTE,
    )

    reconcile(store, LATER, with_changes(a_budgeted_incident("a1", a_move("x", at=12)), ongoing=False), gain)

    with store.read() as tx:
        lines, _ = load_commit_impacts_page(tx, a_project_id(store))
    assert [(impact.change.commit, impact.change.relative_change, impact.incident) for impact in lines] == [
        (a_sha(20), pytest.approx(-0.3), 2),
        (a_sha(12), pytest.approx(0.2), 1),
    ]


def test_an_impact_moves_when_more_points_locate_the_commit_better(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x", at=12)))

    reconcile(store, LATER, a_budgeted_incident("a2", a_move("x", at=11), good=10, bad=12))

    with store.read() as tx:
        lines, _ = load_commit_impacts_page(tx, a_project_id(store))
    assert [impact.change.commit for impact in lines] == [a_sha(11)]


def test_a_boundary_and_members_set_by_hand_survive_evaluations(store: Store) -> None:
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x"), a_move("y")))
    with store.begin() as tx:
        incident_store.update_incident(
            tx, current(store).id, 1, {"pinned": True, "commit": a_sha(11), "last_good": a_sha(10)}
        )

    reconcile(store, LATER, a_budgeted_incident("a2", a_move("x", rel=0.5), a_move("y"), good=10))

    record = current(store)
    assert (record.commit, record.last_good, record.headline) == (
        a_sha(11),
        a_sha(10),
        "x and 1 more series got worse, up to +50.0 %, at 0000000bcc Change number 11 (1 Mar 2026)",
    )
    assert max(member.relative_change for member in current_members(store)) == 0.5


def test_an_incident_number_is_never_reused(store: Store) -> None:
    project = a_project(store)
    reconcile(
        store,
        NOW,
        a_budgeted_incident("a1", a_move("x")),
        a_budgeted_incident("b1", a_move("y", at=20), good=19, bad=20),
    )

    with store.read() as tx:
        assert [record.number for record in list_incidents(tx, project.id)] == [2, 1]


def test_reconciliation_lets_others_write_between_its_transactions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that was held would end these writes: each is of another connection, and waits for nobody."""
    seen = an_evaluation(
        *(a_budgeted_incident(f"a{n}", *(a_move(f"s{n}.{k}") for k in range(4))) for n in range(4))
    )
    project = measured_project(store, *seen.incidents)
    monkeypatch.setattr(reconciliation, "MAX_ROWS_PER_TRANSACTION", 12)
    rows: list[int] = []

    def somebody_writes() -> None:
        with closing(open_store(store.url, create=False)) as other, other.begin() as tx:
            add_mute(tx, project.id, Mute(f"b{len(rows)}", "", 0.0, "by hand", NOW, LATER, "ada"))

    @contextmanager
    def counted() -> Iterator[Session]:
        somebody_writes()
        with store.begin() as tx:
            yield tx
            rows.append(len(incident_store.load_incidents(tx, project.id, incident_store.MEASURED)))

    def slowly(*look: Any) -> list[IncidentWrite]:
        somebody_writes()
        return plan_incident_writes(*look)

    with monkeypatch.context() as patched:
        patched.setattr(reconciliation, "plan_incident_writes", slowly)
        result = reconcile_incidents(store, project, Policy(), seen, NOW, counted)

    assert (result.new, rows) == ((1, 2, 3, 4), [1, 2, 3, 4, 4])


def test_a_change_by_a_person_during_reconciliation_survives(store: Store) -> None:
    reconcile(
        store,
        NOW,
        a_budgeted_incident("a1", a_move("x"), a_move("y")),
        a_budgeted_incident("b1", a_move("z", at=20), good=19, bad=20),
    )
    project, hers = a_project(store), []

    @contextmanager
    def after_ada() -> Iterator[Session]:
        if not hers:
            with store.begin() as tx:
                update_incident(
                    tx,
                    project,
                    2,
                    1,
                    IncidentUpdate(IncidentState.ENVIRONMENT, reason="a driver"),
                    acting_as("ada", NOW),
                )
            hers.append(2)
        with store.begin() as tx:
            yield tx

    result = reconcile_incidents(
        store,
        project,
        Policy(),
        an_evaluation(a_budgeted_incident("a2", a_move("x"), a_move("y"), good=10)),
        LATER,
        after_ada,
    )

    assert (result.changed, result.gone) == ((2,), (1,))
    assert (current(store, 2).state, current(store, 2).last_good) == (IncidentState.ENVIRONMENT, a_sha(10))
    assert [(event.actor, event.after) for event in history(store, 2)][1:] == [
        ("ada", "environment"),
        ("perfci", f"{a_sha(10)[:10]}..{a_sha(12)[:10]}"),
    ]
