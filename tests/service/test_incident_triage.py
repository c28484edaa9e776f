"""Triage of incidents: changes at a revision, with history, audit log and notifications."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import product

import pytest

from perfci.model import IncidentState, PerfciError
from perfci.service.incidents.incident_update_rules import ALLOWED_TRANSITIONS, IncidentUpdate
from perfci.service.incidents.triage import (
    BulkResult,
    StaleRevision,
    require_incident,
    update_incident,
    update_incidents,
)
from perfci.store import Store
from perfci.store.access import audit_log
from perfci.store.incidents import incident_store
from perfci.store.incidents.commit_impacts_page import load_commit_impacts_page
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.jobs.notification_destinations import Destination, save_destination
from perfci.store.jobs.notification_queue import load_deliveries
from tests.support.builders import NOON, acting_as
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

NOW = NOON + timedelta(days=3)
ME = acting_as("user:github/1", NOW + timedelta(hours=1), "r1")
NEXT_MONTH = NOW + timedelta(days=30)


@pytest.fixture
def incident(store: Store) -> IncidentRecord:
    """One that asks for a person."""
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))
    return current(store)


def current(store: Store, number: int = 1) -> IncidentRecord:
    project = a_project(store)
    with store.read() as tx:
        return require_incident(tx, project, number)


def decide_state(
    store: Store, wanted: IncidentUpdate, number: int = 1, revision: int | None = None
) -> IncidentRecord:
    project, record = a_project(store), current(store, number)
    with store.begin() as tx:
        return update_incident(
            tx, project, number, record.revision if revision is None else revision, wanted, ME
        )


def test_the_history_records_who_changed_what_and_why(store: Store, incident: IncidentRecord) -> None:
    record = decide_state(
        store, IncidentUpdate(IncidentState.INVESTIGATING, assignee="ada", note="looks like the tokenizer")
    )

    assert (record.state, record.assignee, record.revision, record.state_number) == (
        "investigating",
        "ada",
        2,
        2,
    )
    assert record.triaged_at == ME.at
    with store.read() as tx:
        history = [
            (event.actor, event.action, event.after, event.text)
            for event in incident_store.load_incident_events(tx, record.id)[1:]
        ]
        (line,) = audit_log.list_entries(tx, a_project(store).id)
    assert history == [
        (ME.actor.name, "state", "investigating", ""),
        (ME.actor.name, "assign", "ada", "assignee"),
        (ME.actor.name, "note", "", "looks like the tokenizer"),
    ]
    assert (line.actor, line.action, line.subject, line.request_id) == (
        ME.actor.name,
        "incident.change",
        "incident 1",
        "r1",
    )


def test_a_change_at_a_stale_revision_is_refused(store: Store, incident: IncidentRecord) -> None:
    decide_state(store, IncidentUpdate(IncidentState.INVESTIGATING))

    with pytest.raises(
        StaleRevision, match=r"Incident 1 was changed meanwhile and is investigating now \(revision 2\)"
    ):
        decide_state(store, IncidentUpdate(IncidentState.INVALID), revision=1)

    assert current(store).state is IncidentState.INVESTIGATING


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (IncidentUpdate(IncidentState.ACCEPTED), "Accepting needs a reason and a day in the future"),
        (
            IncidentUpdate(IncidentState.ACCEPTED, reason="wanted", accepted_until=NOON),
            "Accepting needs a reason",
        ),
        (IncidentUpdate(IncidentState.SNOOZED), "Snoozing needs a moment in the future"),
        (IncidentUpdate(IncidentState.DUPLICATE), "A duplicate needs the number"),
        (IncidentUpdate(IncidentState.DUPLICATE, duplicate_of=1), "Incident 1 cannot stand for 1"),
        (IncidentUpdate(IncidentState.DUPLICATE, duplicate_of=9), "has no incident 9"),
    ],
)
def test_a_state_requires_its_fields(
    store: Store, incident: IncidentRecord, wanted: IncidentUpdate, sentence: str
) -> None:
    with pytest.raises(PerfciError, match=sentence):
        decide_state(store, wanted)

    assert current(store).revision == 1


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (
            IncidentUpdate(accepted_until=NEXT_MONTH),
            "A day until which it is accepted goes with the state accepted, not with new",
        ),
        (
            IncidentUpdate(snoozed_until=NEXT_MONTH),
            "An end of the snooze goes with the state snoozed, not with new",
        ),
        (
            IncidentUpdate(IncidentState.INVALID, duplicate_of=2),
            "The number of another incident goes with the state duplicate, not with invalid",
        ),
    ],
)
def test_fields_of_another_state_are_refused(store: Store, wanted: IncidentUpdate, sentence: str) -> None:
    reconcile(
        store,
        NOW,
        a_budgeted_incident("a1", a_move("x")),
        a_budgeted_incident("b1", a_move("y", at=20), good=19, bad=20),
    )

    with pytest.raises(PerfciError, match=sentence):
        decide_state(store, wanted)

    assert current(store).revision == 1


@pytest.mark.parametrize("state", [None, IncidentState.ACCEPTED], ids=["unsaid", "said again"])
def test_an_acceptance_can_get_another_end_and_reason(
    store: Store, incident: IncidentRecord, state: IncidentState | None
) -> None:
    first = decide_state(
        store, IncidentUpdate(IncidentState.ACCEPTED, reason="bf16 needs it", accepted_until=NEXT_MONTH)
    )
    later = NEXT_MONTH + timedelta(days=30)

    longer = decide_state(store, IncidentUpdate(state, accepted_until=later))
    record = decide_state(store, IncidentUpdate(state, reason="and so does fp8"))

    assert (longer.reason, longer.accepted_until) == ("bf16 needs it", later)
    assert (record.reason, record.accepted_until) == ("and so does fp8", later)
    assert (record.state_number, record.changed_at) == (first.state_number, first.changed_at)
    with store.read() as tx:
        lines = [
            (event.action, event.before, event.after, event.text)
            for event in incident_store.load_incident_events(tx, record.id)[3:]
        ]
    assert lines == [
        ("state", "accepted", "accepted", "bf16 needs it"),
        ("until", str(NEXT_MONTH), str(later), "accepted_until"),
        ("state", "accepted", "accepted", "and so does fp8"),
    ]


def test_a_snooze_can_be_extended_but_not_end_in_the_past(store: Store, incident: IncidentRecord) -> None:
    decide_state(store, IncidentUpdate(IncidentState.SNOOZED, snoozed_until=NEXT_MONTH))

    with pytest.raises(PerfciError, match="Snoozing needs a moment in the future"):
        decide_state(store, IncidentUpdate(snoozed_until=NOON))
    record = decide_state(store, IncidentUpdate(snoozed_until=NEXT_MONTH + timedelta(days=1)))

    assert record.snoozed_until == NEXT_MONTH + timedelta(days=1)


def test_setting_the_current_state_changes_nothing(store: Store, incident: IncidentRecord) -> None:
    accepted = decide_state(
        store, IncidentUpdate(IncidentState.ACCEPTED, reason="bf16 needs it", accepted_until=NEXT_MONTH)
    )

    assert decide_state(store, IncidentUpdate(IncidentState.ACCEPTED)).revision == accepted.revision


@pytest.mark.parametrize(
    "pair", list(product(IncidentState, IncidentState)), ids=lambda pair: f"{pair[0]}-{pair[1]}"
)
def test_every_state_has_a_transition_back_to_work(pair: tuple[IncidentState, IncidentState]) -> None:
    before, after = pair

    assert (after in ALLOWED_TRANSITIONS[before]) <= (before is not after)
    assert IncidentState.INVESTIGATING in ALLOWED_TRANSITIONS[before] or before is IncidentState.INVESTIGATING


def test_an_impact_is_marked_accepted_until_its_incident_is_reopened(
    store: Store, incident: IncidentRecord
) -> None:
    decide_state(
        store, IncidentUpdate(IncidentState.ACCEPTED, reason="bf16 needs it", accepted_until=NEXT_MONTH)
    )
    with store.read() as tx:
        assert [impact.accepted for impact in load_commit_impacts_page(tx, a_project(store).id)[0]] == [True]

    decide_state(store, IncidentUpdate(IncidentState.INVESTIGATING))

    with store.read() as tx:
        assert [impact.accepted for impact in load_commit_impacts_page(tx, a_project(store).id)[0]] == [False]
    assert current(store).accepted_until is None


def test_notifies_each_state_once_to_destinations_that_want_it(store: Store) -> None:
    project = a_project(store)
    with store.begin() as tx:
        for name, states in (("all", ["new", "fixed"]), ("begins", ["new"])):
            save_destination(
                tx, project.id, Destination(name, "webhook", "https://a.example/", routes={"states": states})
            )
    reconcile(store, NOW, a_budgeted_incident("a1", a_move("x")))

    decide_state(store, IncidentUpdate(IncidentState.FIXED, fix_sha="f" * 40, reason="reverted the fusion"))
    decide_state(store, IncidentUpdate(note="thanks"))

    with store.read() as tx:
        told_of = sorted(
            (delivery.destination.name, delivery.body["state"])
            for delivery in load_deliveries(tx, project.id)
        )
    assert told_of == [("all", "fixed"), ("all", "new"), ("begins", "new")]


def test_a_bulk_change_reports_stale_and_refused_incidents(store: Store) -> None:
    reconcile(
        store,
        NOW,
        *(
            a_budgeted_incident(f"i{at}", a_move(f"s{at}", at=at), good=at - 1, bad=at)
            for at in range(30, 20, -1)
        ),
    )
    decide_state(store, IncidentUpdate(IncidentState.INVESTIGATING), number=2)
    decide_state(store, IncidentUpdate(IncidentState.INVALID), number=3)
    project = a_project(store)

    with store.begin() as tx:
        result = update_incidents(
            tx,
            project,
            {1: 1, 2: 1, 3: 2, 4: 1, 99: 1},
            IncidentUpdate(IncidentState.SNOOZED, snoozed_until=NEXT_MONTH),
            ME,
        )

    assert (result.changed, result.stale) == ((1, 4), (2,))
    assert set(result.refused) == {3, 99}
    assert [current(store, number).state for number in (1, 2, 3, 4)] == [
        "snoozed",
        "investigating",
        "invalid",
        "snoozed",
    ]


def test_of_two_concurrent_changes_one_is_stored_and_the_other_is_stale(
    store: Store, incident: IncidentRecord
) -> None:
    project = a_project(store)
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def person(number: int) -> None:
        start.wait()
        for _ in range(5):
            with store.read() as tx:
                seen = require_incident(tx, project, 1)
            try:
                with store.begin() as tx:
                    update_incident(
                        tx, project, 1, seen.revision, IncidentUpdate(assignee=f"{seen.assignee}{number}"), ME
                    )
                outcomes.append("changed")
            except StaleRevision:
                outcomes.append("stale")

    people = [threading.Thread(target=person, args=(number,)) for number in range(8)]
    for each_person in people:
        each_person.start()
    for each_person in people:
        each_person.join()

    assert len(outcomes) == 40
    assert len(current(store).assignee) == outcomes.count("changed")  # nobody's addition was overwritten


def test_a_bulk_change_of_no_incidents_does_nothing(store: Store, incident: IncidentRecord) -> None:
    project = a_project(store)

    with store.begin() as tx:
        assert update_incidents(tx, project, {}, IncidentUpdate(IncidentState.INVALID), ME) == BulkResult()
