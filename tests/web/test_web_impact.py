"""The page of the impact of commits: which one changed which series, even if a later gain hides it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape

import pytest
from flask.testing import FlaskClient
from web_builders import NOW

from perfci.model import IncidentKind
from perfci.store import Store
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci_web import create_app
from tests.support.builders import PROJECT, a_commit, a_sha
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

P = "/acme:model"


@pytest.fixture
def client(empty_store: Store) -> Iterator[FlaskClient]:
    """A regression of two series, and a gain of one of them thirty commits later."""
    with empty_store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(1, 61)])
    gain = a_budgeted_incident(
        "b1", a_move("train", at=40, rel=-0.2), good=39, bad=40, kind=IncidentKind.IMPROVEMENT
    )
    reconcile(
        empty_store,
        NOW - timedelta(days=1),
        gain,
        a_budgeted_incident("a1", a_move("train"), a_move("serve.<b>", rel=0.05)),
    )
    app = create_app(empty_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def rows(client: FlaskClient, path: str) -> list[str]:
    """The lines of the table as they are read."""
    page = client.get(path).get_data(as_text=True)
    body = page.partition("</thead>")[2].partition("</table>")[0]
    plain = [re.sub(r"<(?!wbr)[^>]+>", " ", row).replace("<wbr>", "") for row in body.split("</tr>")]
    return [" ".join(unescape(item).split()) for item in plain if item.strip()]


def test_shows_a_loss_despite_a_later_gain(client: FlaskClient) -> None:
    assert rows(client, f"{P}/impact") == [
        "0000002 Change number 40 3 Mar 2026",
        "train time −20.0 % 1.000 s 0.8000 s #2 new",
        "0000000 Change number 12 2 Mar 2026",
        "serve.<b> time +5.0 % 1.000 s 1.050 s #1 new",
        "train time +20.0 % 1.000 s 1.200 s #1 new",
    ]


@pytest.mark.parametrize(
    ("moved", "commits"), [("worse", ["0000000"]), ("better", ["0000002"]), ("up", ["0000002"])]
)
def test_filters_impact_by_direction(client: FlaskClient, moved: str, commits: list[str]) -> None:
    result = rows(client, f"{P}/impact?effect={moved}")

    assert [row.split()[0] for row in result if "Change number" in row][: len(commits)] == commits
    assert len(result) == {"worse": 3, "better": 2, "up": 5}[moved]


def test_filters_impact_by_commit(client: FlaskClient) -> None:
    assert len(rows(client, f"{P}/impact?commit={a_sha(12)}")) == 3

    page = client.get(f"{P}/impact?commit={a_sha(13)}").get_data(as_text=True)

    assert "<h1>What <code>0000000dcc</code> moved.</h1>" in page
    assert "No such change: either this commit moved nothing" in page


@pytest.mark.parametrize(
    "query", ["before=0", "before=-3", "before=99999999999999999999", "commit=%00", "effect=%00"]
)
def test_ignores_invalid_filters(client: FlaskClient, query: str) -> None:
    assert len(rows(client, f"{P}/impact?{query}")) == 5


def test_leaves_invalid_incidents_out_of_the_impact(client: FlaskClient) -> None:
    client.post(f"{P}/incidents/1", data={"revision": 1, "state": "invalid", "reason": "noise"})

    assert len(rows(client, f"{P}/impact")) == 2


def test_says_that_recovered_changes_are_left_out(empty_store: Store) -> None:
    recovered = a_budgeted_incident("r1", a_move("train"), kind=IncidentKind.RESOLVED)
    reconcile(empty_store, NOW - timedelta(days=1), recovered)

    page = create_app(empty_store, clock=lambda: NOW).test_client().get(f"{P}/impact").text

    assert "What recovered within eight commits" in page
    assert "No commit has moved a level so far." in page


def test_serves_the_impact_as_json(client: FlaskClient) -> None:
    document = client.get(f"{P}/impact.json?effect=worse").get_json()

    assert [(item["sentence"], item["incident"], item["state"]) for item in document["items"]] == [
        ("serve.<b> got 5.0 % slower", 1, "new"),
        ("train got 20.0 % slower", 1, "new"),
    ]
    assert document["next"] is None


def test_is_linked_from_commits_and_incidents(client: FlaskClient) -> None:
    address = f'href="{P}/impact?commit={a_sha(12)}"'

    assert address in client.get(f"{P}/commit/{a_sha(12)}").get_data(as_text=True)
    assert address in client.get(f"{P}/incidents/1").get_data(as_text=True)


def test_explains_an_empty_impact(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        upsert_commits(tx, "acme/new", [a_commit(1)])
    client = create_app(empty_store, clock=lambda: NOW).test_client()

    page = client.get("/acme:new/impact").get_data(as_text=True)

    assert "No commit has moved a level so far. Confirmed changes are listed here by commit." in page
