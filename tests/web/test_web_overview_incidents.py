"""Incidents on the overview, once people changed them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from flask.testing import FlaskClient
from web_builders import NOW

from perfci.model import IncidentState
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.triage import update_incident
from perfci.store import Store
from perfci_web import create_app
from tests.support.builders import acting_as
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile


@pytest.fixture
def client(empty_store: Store) -> FlaskClient:
    """Seven incidents, of which one is settled."""
    incidents = [
        a_budgeted_incident(f"n{at}", a_move(f"train.time_{at}", at=at), good=at - 1, bad=at)
        for at in range(20, 27)
    ]
    reconcile(empty_store, NOW - timedelta(days=1), *incidents)
    project = a_project(empty_store)
    with empty_store.begin() as tx:
        update_incident(tx, project, 3, 1, IncidentUpdate(IncidentState.INVALID), acting_as("ada", NOW))
    return create_app(empty_store, clock=lambda: NOW).test_client()


def test_tells_size_age_and_owner_of_open_incidents(client: FlaskClient) -> None:
    page = client.get("/acme:model/").get_data(as_text=True).replace("<wbr>", "")

    assert "<h1>6 new incidents in the last 7 days; 6 incidents are open.</h1>" in page
    assert page.count("1 day ago · candidate commit") == 6
    assert page.count("nobody owns it") == 6
    assert page.count('<strong class="worse">+20.0 %</strong>') == 6
    assert "take it" not in page


def test_the_headline_counts_new_and_fixed_incidents(empty_store: Store) -> None:
    moves = [
        a_budgeted_incident(f"n{at}", a_move(f"train.time_{at}", at=at), good=at - 1, bad=at)
        for at in (20, 21)
    ]
    reconcile(empty_store, NOW - timedelta(days=1), *moves)
    with empty_store.begin() as tx:
        update_incident(
            tx, a_project(empty_store), 1, 1, IncidentUpdate(IncidentState.FIXED), acting_as("ada", NOW)
        )
    app = create_app(empty_store, read_only=False, clock=lambda: NOW)

    page = app.test_client().get("/acme:model/").get_data(as_text=True).replace("<wbr>", "")
    app.extensions["perfci"].group_commit.close()

    assert "<h1>1 new incident, 1 fixed in the last 7 days; 1 incident is open.</h1>" in page
    assert "Fixed in the last 7 days" in page
    assert 'aria-label="Take incident 2"' in page


def test_says_first_that_results_have_ended(store: Store) -> None:
    late = create_app(store, clock=lambda: NOW + timedelta(days=400)).test_client()

    assert "<h1>No data for 1 year; before that: 1 open regression.</h1>" in late.get("/acme:tiny-lm/").text


def test_leaves_out_settled_incidents(client: FlaskClient) -> None:
    page = client.get("/acme:model/").get_data(as_text=True)

    assert 'href="/acme:model/incidents/2"' in page
    assert 'href="/acme:model/incidents/3"' not in page
