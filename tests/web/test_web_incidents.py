"""The page of incidents, its JSON, and the block on the overview."""

from __future__ import annotations

from flask.testing import FlaskClient
from web_builders import NOW, STEP, SUSPECT, a_commit

from perfci.config import HistoryTable, Settings
from perfci.store import Store
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci_web import create_app

P = "/acme:tiny-lm"


def test_lists_open_incidents_first(client: FlaskClient) -> None:
    text = client.get(f"{P}/incidents").get_data(as_text=True)

    assert "<h1>2 open incidents, 2 closed or informational.</h1>" in text
    assert "At most 5 alerts a week; what is below that limit is listed, never lost." in text
    assert text.index("mixed") < text.index("regression") < text.index("environment")


def test_names_a_new_torch_instead_of_candidate_commits(client: FlaskClient) -> None:
    text = client.get(f"{P}/incidents").get_data(as_text=True)

    assert "torch 2.12.1 → 2.13.0. No commit is blamed." in text.replace("<wbr>", "")
    assert f"perfci compare {a_commit(STEP - 1).sha[:10]} {a_commit(STEP).sha[:10]} --bench" in text


def test_serves_all_incidents_as_json(client: FlaskClient) -> None:
    document = client.get(f"{P}/incidents.json").get_json()

    by_commit = {(incident["commit"], incident["kind"]): incident for incident in document["incidents"]}
    assert set(by_commit) >= {(a_commit(STEP).sha, "mixed"), (a_commit(SUSPECT).sha, "regression")}
    assert all(incident["disposition"] == "page" for incident in document["incidents"] if incident["open"])
    assert (document["retests"], document["slow_drifts"]) == ([], [])


def test_links_each_open_incident_from_the_overview(client: FlaskClient) -> None:
    (first, *_) = [
        incident for incident in client.get(f"{P}/incidents.json").get_json()["incidents"] if incident["open"]
    ]

    text = client.get(f"{P}/").get_data(as_text=True)

    assert f'href="{P}/incidents#{first["id"]}"' in text


def test_reports_a_spent_page_budget_and_keeps_every_incident(store: Store) -> None:
    client = create_app(
        store, clock=lambda: NOW, settings=Settings(history=HistoryTable(pages_per_week=1))
    ).test_client()

    text = client.get(f"{P}/incidents").get_data(as_text=True)

    assert "<h1>1 open incident, 1 not alerted, 2 closed or informational.</h1>" in text
    assert "weekly limit of 1 alert reached (2026-W15)" in text


def test_explains_a_project_without_history(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        upsert_commits(tx, "acme/new", [a_commit(1)])
    client = create_app(empty_store, clock=lambda: NOW).test_client()

    text = client.get("/acme:new/incidents").get_data(as_text=True)

    assert "<h1>No open incident.</h1>" in text
    assert "No level of any series has moved so far." in text
