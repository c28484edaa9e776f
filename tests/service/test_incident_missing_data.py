"""Missing data opens an incident that notifies once and closes by itself."""

from __future__ import annotations

from datetime import timedelta

from perfci.model import IncidentState
from perfci.service.missing_data.missing_data_monitor import (
    close_missing_data_incident,
    open_missing_data_incident,
)
from perfci.store import Store
from perfci.store.incidents import incident_store
from perfci.store.jobs.notification_destinations import Destination, save_destination
from perfci.store.jobs.notification_queue import load_deliveries
from tests.support.builders import NOON
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

KEY = "late nightly"


def test_missing_data_opens_one_incident_and_notifies_once(store: Store) -> None:
    project = a_project(store)
    with store.begin() as tx:
        save_destination(tx, project.id, Destination("hook", "webhook", "https://a.example/"))

    for hour in range(3):
        with store.begin() as tx:
            headline = f"nightly is {hour + 3} h late"
            incident = open_missing_data_incident(tx, project, KEY, headline, NOON + timedelta(hours=hour))

    with store.read() as tx:
        (record,) = incident_store.load_incidents(tx, project.id, incident_store.MISSING_DATA)
        assert [delivery.body["headline"] for delivery in load_deliveries(tx, project.id)] == [
            "nightly is 3 h late"
        ]
    assert (incident.number, record.headline, record.is_open) == (1, "nightly is 5 h late", True)


def test_a_missing_data_incident_closes_with_new_data_and_opens_again_without(store: Store) -> None:
    project = a_project(store)
    with store.begin() as tx:
        open_missing_data_incident(tx, project, KEY, "late", NOON)

    with store.begin() as tx:
        closed = close_missing_data_incident(tx, project, KEY, NOON + timedelta(hours=1))
        again = open_missing_data_incident(tx, project, KEY, "late", NOON + timedelta(hours=9))
        assert close_missing_data_incident(tx, project, "another", NOON) is None

    assert closed is not None
    assert (closed.state, closed.verified_at, closed.is_open) == (
        IncidentState.FIXED,
        NOON + timedelta(hours=1),
        False,
    )
    assert (again.number, again.state) == (2, IncidentState.NEW)


def test_an_evaluation_leaves_missing_data_incidents_alone(store: Store) -> None:
    project = a_project(store)
    with store.begin() as tx:
        open_missing_data_incident(tx, project, KEY, "late", NOON)

    reconcile(store, NOON + timedelta(hours=1), a_budgeted_incident("a1", a_move("x")))

    with store.read() as tx:
        assert [
            record.number
            for record in incident_store.load_incidents(tx, project.id, incident_store.MISSING_DATA)
        ] == [1]
