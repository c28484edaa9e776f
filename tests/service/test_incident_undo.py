"""Undo restores the state before the last change, and the history keeps both."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.regroup_incidents import merge_incidents
from perfci.service.incidents.triage import StaleRevision, require_incident, undo_last_change, update_incident
from perfci.store import Store
from perfci.store.incidents import incident_store
from perfci.store.incidents.incident_records import IncidentRecord
from tests.support.builders import NOON, acting_as
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

NOW = NOON + timedelta(days=3)
NEXT_MONTH = NOW + timedelta(days=30)


@pytest.fixture(autouse=True)
def two_incidents(store: Store) -> None:
    reconcile(
        store,
        NOW,
        a_budgeted_incident("a1", a_move("x")),
        a_budgeted_incident("b1", a_move("y", at=20), good=19, bad=20),
    )


def acting_after(minutes: int, actor: str = "ada") -> AuditContext:
    return acting_as(actor, NOW + timedelta(minutes=minutes))


def current(store: Store, number: int = 1) -> IncidentRecord:
    with store.read() as tx:
        return require_incident(tx, a_project(store), number)


def decide_state(store: Store, wanted: IncidentUpdate, minutes: int, number: int = 1) -> IncidentRecord:
    project, revision = a_project(store), current(store, number).revision
    with store.begin() as tx:
        return update_incident(tx, project, number, revision, wanted, acting_after(minutes))


def undo(store: Store, minutes: int, number: int = 1, revision: int | None = None) -> IncidentRecord:
    project, existing = a_project(store), current(store, number).revision
    with store.begin() as tx:
        return undo_last_change(
            tx, project, number, existing if revision is None else revision, acting_after(minutes, "bob")
        )


def test_undo_restores_a_state_and_the_history_keeps_both_changes(store: Store) -> None:
    decide_state(
        store, IncidentUpdate(IncidentState.INVALID, reason="noise", assignee="ada", note="a slip"), 1
    )

    record = undo(store, 2)

    assert (record.state, record.reason, record.assignee, record.revision) == ("new", "", "ada", 3)
    with store.read() as tx:
        lines = [
            (event.actor, event.action, event.before, event.after)
            for event in incident_store.load_incident_events(tx, record.id)
        ]
    assert lines[1] == ("ada", "state", "new", "invalid")
    assert lines[-1] == ("bob", "undo", "invalid", "new")


def test_undo_restores_an_acceptance_with_its_reason_and_end(store: Store) -> None:
    decide_state(
        store, IncidentUpdate(IncidentState.ACCEPTED, reason="bf16 needs it", accepted_until=NEXT_MONTH), 1
    )
    decide_state(store, IncidentUpdate(IncidentState.INVESTIGATING, reason="really?"), 2)

    record = undo(store, 3)

    assert (record.state, record.reason, record.accepted_until) == ("accepted", "bf16 needs it", NEXT_MONTH)


@pytest.mark.parametrize(
    "wanted",
    [
        IncidentUpdate(reason="and fp8"),
        IncidentUpdate(accepted_until=NEXT_MONTH + timedelta(days=9)),
        IncidentUpdate(IncidentState.INVALID),
    ],
    ids=["a reason", "a day", "a state"],
)
def test_undo_restores_the_earlier_reason_and_end_of_an_acceptance(
    store: Store, wanted: IncidentUpdate
) -> None:
    decide_state(
        store, IncidentUpdate(IncidentState.ACCEPTED, reason="bf16 needs it", accepted_until=NEXT_MONTH), 1
    )
    decide_state(store, wanted, 2)

    record = undo(store, 3)

    assert (record.state, record.reason, record.accepted_until) == ("accepted", "bf16 needs it", NEXT_MONTH)


def test_undo_restores_the_earlier_reason_within_a_state(store: Store) -> None:
    decide_state(store, IncidentUpdate(reason="a slip"), 1)

    assert (undo(store, 2).reason, current(store).state) == ("", "new")


def test_undo_restores_the_original_of_a_duplicate(store: Store) -> None:
    decide_state(store, IncidentUpdate(IncidentState.DUPLICATE, duplicate_of=2), 1)
    decide_state(store, IncidentUpdate(IncidentState.NEW), 2)

    assert undo(store, 3).duplicate_number == 2


def test_undo_restores_a_state_that_no_transition_leads_to(store: Store) -> None:
    decide_state(
        store, IncidentUpdate(IncidentState.SNOOZED, snoozed_until=NEXT_MONTH, reason="after the release"), 1
    )
    decide_state(store, IncidentUpdate(IncidentState.FIXED), 2)

    assert undo(store, 3).snoozed_until == NEXT_MONTH


def test_undo_at_a_stale_revision_is_refused(store: Store) -> None:
    changed = decide_state(store, IncidentUpdate(IncidentState.INVALID), 1)
    decide_state(store, IncidentUpdate(note="but look at the loss", assignee="eve"), 2)

    with pytest.raises(StaleRevision, match="was changed meanwhile and is invalid now"):
        undo(store, 3, revision=changed.revision)

    assert current(store).state is IncidentState.INVALID


def test_undo_says_why_there_is_nothing_to_undo(store: Store) -> None:
    with pytest.raises(PerfciError, match="Nobody changed the state of incident 1 so far"):
        undo(store, 1)
    decide_state(store, IncidentUpdate(IncidentState.INVALID), 2)
    undo(store, 3)

    with pytest.raises(PerfciError, match="was undone already: set the state you want"):
        undo(store, 4)


def test_undo_refuses_a_merged_incident_that_nobody_changed(store: Store) -> None:
    with store.begin() as tx:
        merge_incidents(tx, a_project(store), 1, 1, {2: 1}, acting_after(1))

    with pytest.raises(
        PerfciError, match="Incident 2 was merged with another one since: split takes its series out"
    ):
        undo(store, 2, number=2)


def test_undo_refuses_a_merged_incident(store: Store) -> None:
    decide_state(store, IncidentUpdate(IncidentState.INVESTIGATING), 1, number=2)
    project = a_project(store)
    with store.begin() as tx:
        merge_incidents(
            tx, project, 1, current(store).revision, {2: current(store, 2).revision}, acting_after(2)
        )

    with pytest.raises(PerfciError, match="Incident 2 was merged with another one since"):
        undo(store, 3, number=2)
