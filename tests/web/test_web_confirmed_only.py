"""The switch that leaves what an A/B rerun confirmed: on the overview, changes, incidents and the week."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from flask.testing import FlaskClient
from page_reading import read, words
from web_builders import NOW

from perfci.store import open_store
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.measured_sessions import start_session
from perfci_web import create_app
from tests.support.builders import PROJECT, a_sha, a_verdict
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile, with_changes

MODEL = "/acme:model"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """Two incidents; A/B reruns confirmed the change of the first alone."""
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('confirmed')}/perfci.db", create=True)
    proven, seen = a_move("proven"), a_move("seen.<b>", at=20)
    incidents = (
        with_changes(a_budgeted_incident("a1", proven), confirmed_count=1),
        a_budgeted_incident("b1", seen, good=19, bad=20),
    )
    reconcile(store, NOW - timedelta(hours=2), *incidents)
    with store.begin() as tx:
        start_session(tx, PROJECT, "pairs", "confirm", "spec", 7, 0, NOW - timedelta(hours=1))
        verdict = a_verdict(proven.series, base=a_sha(11), head=a_sha(12))
        add_verdicts(tx, PROJECT, "pairs", [verdict], NOW)
    yield create_app(store, clock=lambda: NOW).test_client()
    store.close()


@pytest.mark.parametrize(
    ("path", "headline"),
    [
        (f"{MODEL}/", "1 confirmed incident is open"),
        (f"{MODEL}/incidents", "1 confirmed open incident."),
        (f"{MODEL}/changes?since=all", "1 confirmed change so far: 1 worse."),
    ],
)
def test_hides_what_is_not_confirmed_and_says_so(client: FlaskClient, path: str, headline: str) -> None:
    everything = words(read(client, path))
    confirmed = read(client, f"{path}{'&' if '?' in path else '?'}confirmed=1")

    assert "seen.<b>" in everything
    assert "confirmed by A/B rerun only" in everything
    assert headline in words(confirmed)
    assert "proven" in words(confirmed)
    assert "seen.<b>" not in words(confirmed)
    assert 'aria-label="Show what is not confirmed too"' in confirmed


def test_the_overview_says_that_nothing_else_is_confirmed(client: FlaskClient) -> None:
    page = words(read(client, f"{MODEL}/?confirmed=1"))

    assert "change is confirmed by an A/B rerun." in page
    assert "No change of a level is recorded" not in page
    assert client.get(f"{MODEL}.json?confirmed=1").json["scorecard"] is None


def test_links_and_data_keep_the_switch(client: FlaskClient) -> None:
    page = read(client, f"{MODEL}/incidents?confirmed=1")

    assert f'href="{MODEL}/changes?confirmed=1"' in page
    assert f'href="{MODEL}/incidents.json?confirmed=1"' in page
    incidents = client.get(f"{MODEL}/incidents.json?confirmed=1").json["incidents"]
    assert [incident["confirmed_series"] for incident in incidents] == [1]
    assert client.get(f"{MODEL}.json?confirmed=1").json["open_incidents"] == 1
    assert len(client.get(f"{MODEL}/changes.json?since=all&confirmed=1").json["items"]) == 1


def test_the_week_counts_what_is_confirmed(client: FlaskClient) -> None:
    week = f"{MODEL}/week/2026-W15"
    everything, confirmed = (words(read(client, f"{week}{query}")) for query in ("", "?confirmed=1"))

    assert "2 open now." in everything
    assert "1 open now." in confirmed
    assert "seen.<b>" not in confirmed
    assert "1 open now" in read(client, f"{week}.txt?confirmed=1")
