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


def test_counts_all_open_incidents_and_shows_five(client: FlaskClient) -> None:
    page = client.get("/acme:model/").get_data(as_text=True)

    assert "<h1>6 open incidents.</h1>" in page
    assert "No regression has been confirmed on new pairs in 7 series over 0 commits." in page.replace(
        "<wbr>", ""
    )
    assert page.count("alert 1 of at most 5 in week 2026-W09") == 5


def test_leaves_out_settled_incidents(client: FlaskClient) -> None:
    page = client.get("/acme:model/").get_data(as_text=True)

    assert 'href="/acme:model/incidents/2"' in page
    assert 'href="/acme:model/incidents/3"' not in page
