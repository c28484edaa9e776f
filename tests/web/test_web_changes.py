"""The page of changes: which commit moved which series, even if a later gain hides it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from xml.etree import ElementTree

import pytest
from flask.testing import FlaskClient
from web_builders import NOW

from perfci.model import IncidentKind
from perfci.report.change_id import format_change_id
from perfci.store import Store
from perfci.store.column_conversions import series_identity
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci_web import create_app
from tests.support.builders import PROJECT, a_commit, a_series, a_sha
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

P = "/acme:model"
GAIN = "0000002 Change number 40 Ada · 3 Mar 2026 #2 new"
LOSS = "0000000 Change number 12 Ada · 2 Mar 2026 #1 new"
TRAIN_GAIN, TRAIN_LOSS, SERVE_LOSS = (
    format_change_id(series_identity(PROJECT, a_series(name)), a_sha(at))
    for name, at in (("train", 40), ("train", 12), ("serve.<b>", 12))
)


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
    assert rows(client, f"{P}/changes?since=all") == [
        f"train time {TRAIN_GAIN} −20.0 % not confirmed 1.000 s → 0.8000 s waterfall {GAIN}",
        f"train time {TRAIN_LOSS} +20.0 % not confirmed 1.000 s → 1.200 s waterfall {LOSS}",
        f"serve.<b> time {SERVE_LOSS} +5.0 % not confirmed 1.000 s → 1.050 s waterfall {LOSS}",
    ]


@pytest.mark.parametrize(
    ("query", "headline"),
    [
        ("since=all", "3 changes so far: 2 worse, 1 better."),
        ("since=all&moved=worse", "2 changes so far: 2 worse."),
        ("since=all&state=confirmed", "No confirmed change so far."),
        ("since=all&branch=none", "No change so far."),
        ("since=7d", "No change in the last 7 days."),
        ("", "3 changes in the last 90 days: 2 worse, 1 better."),
        ("branch=none", "No change in the last 7 days."),
        ("since=90d", "3 changes in the last 90 days: 2 worse, 1 better."),
    ],
)
def test_the_headline_counts_what_is_shown(client: FlaskClient, query: str, headline: str) -> None:
    assert f"<h1>{headline}</h1>" in client.get(f"{P}/changes?{query}").text


def test_says_how_many_changes_a_selection_leaves_out(client: FlaskClient) -> None:
    page = client.get(f"{P}/changes?since=7d").text

    assert "None of the 3 recorded changes of this project is in this selection." in page
    assert f'<a href="{P}/changes?since=all">Show all 3</a>' in page


@pytest.mark.parametrize(("moved", "count"), [("worse", 2), ("better", 1), ("up", 3)])
def test_filters_changes_by_direction(client: FlaskClient, moved: str, count: int) -> None:
    assert len(rows(client, f"{P}/changes?since=all&moved={moved}")) == count


def test_filters_changes_by_commit_at_any_time(client: FlaskClient) -> None:
    assert len(rows(client, f"{P}/changes?commit={a_sha(12)}")) == 2

    page = client.get(f"{P}/changes?commit={a_sha(13)}").get_data(as_text=True)

    assert "<h1>What <code>0000000dcc</code> moved.</h1>" in page
    assert "No such change: either this commit moved nothing" in page


@pytest.mark.parametrize(
    "query", ["page=0", "page=-3", "page=99999999999999999999", "commit=%00", "moved=%00", "state=%00"]
)
def test_ignores_invalid_filters(client: FlaskClient, query: str) -> None:
    assert len(rows(client, f"{P}/changes?since=all&{query}")) == 3


def test_the_page_of_a_commit_leads_to_its_incident(client: FlaskClient) -> None:
    page = client.get(f"{P}/commit/{a_sha(12)}").get_data(as_text=True)

    assert f'<a href="{P}/incidents/1">Incident #1</a>: train and 1 more series got worse' in page
    assert "Incident #" not in client.get(f"{P}/commit/{a_sha(13)}").get_data(as_text=True)


def test_the_overview_offers_no_lens_that_its_lists_ignore(client: FlaskClient) -> None:
    page = client.get(f"{P}/?branch=main&since=30d").get_data(as_text=True)

    assert re.findall('<select name="([^"]+)"', page) == ["since"]
    assert '<input type="hidden" name="branch" value="main">' in page


def test_leaves_invalid_incidents_out_of_the_changes(client: FlaskClient) -> None:
    client.post(f"{P}/incidents/1", data={"revision": 1, "state": "invalid", "reason": "noise"})

    assert len(rows(client, f"{P}/changes?since=all")) == 1


def test_says_that_recovered_changes_are_left_out(empty_store: Store) -> None:
    recovered = a_budgeted_incident("r1", a_move("train"), kind=IncidentKind.RESOLVED)
    reconcile(empty_store, NOW - timedelta(days=1), recovered)

    page = create_app(empty_store, clock=lambda: NOW).test_client().get(f"{P}/changes").text

    assert "What recovered within eight commits" in page
    assert "No commit has moved a level so far." in page


def test_serves_the_changes_as_json(client: FlaskClient) -> None:
    document = client.get(f"{P}/changes.json?since=all&moved=worse").get_json()

    assert [(item["sentence"], item["incident"], item["state"]) for item in document["items"]] == [
        ("train got 20.0 % slower", 1, "new"),
        ("serve.<b> got 5.0 % slower", 1, "new"),
    ]


def test_a_change_has_one_name_everywhere(client: FlaskClient) -> None:
    def read(path: str) -> str:
        return client.get(path, follow_redirects=True).text

    assert re.fullmatch("C[0-9a-f]{8}", TRAIN_LOSS)
    assert len({TRAIN_GAIN, TRAIN_LOSS, SERVE_LOSS}) == 3
    changes = client.get(f"{P}/changes.json?since=all").get_json()["items"]
    members = client.get(f"{P}/incidents/1.json").get_json()["members"]
    assert [change["id"] for change in changes] == [TRAIN_GAIN, TRAIN_LOSS, SERVE_LOSS]
    assert {member["id"] for member in members} == {TRAIN_LOSS, SERVE_LOSS}
    for path in (f"{P}/incidents/1", f"{P}/incidents/1.csv"):
        assert TRAIN_LOSS in read(path)
        assert SERVE_LOSS in read(path)
    assert client.get(f"/api/v1/projects{P}/incidents/1").get_json()["members"][0]["id"] == TRAIN_LOSS


def test_the_search_box_knows_a_change_by_its_name(client: FlaskClient) -> None:
    answer = client.get(f"{P}/search?q={TRAIN_LOSS.lower()}")

    assert answer.status_code == 302
    assert answer.location.startswith(f"{P}/s/train/time?")
    assert answer.location.endswith(f"pin={a_sha(12)[:10]}")
    [result] = client.get(f"{P}/search.json?q={TRAIN_LOSS}").get_json()["results"]
    assert (result["kind"], result["name"]) == ("change", TRAIN_LOSS)
    assert client.get(f"{P}/search.json?q=C00000000").get_json()["results"] == []


def test_serves_the_changes_as_csv(client: FlaskClient) -> None:
    lines = client.get(f"{P}/changes.csv?since=all&moved=better").text.splitlines()

    assert lines[0].startswith("id,commit,committed_at,author,benchmark,parameters,metric,")
    assert lines[1].startswith(f"{TRAIN_GAIN},{a_sha(40)},2026-03-03T")
    assert lines[1].endswith(",1.0,0.8,-0.19999999999999996,,,False,2,new")


def test_serves_the_changes_as_a_feed(client: FlaskClient) -> None:
    answer = client.get(f"{P}/changes.atom?since=all")
    feed = ElementTree.fromstring(answer.data)
    atom = {"a": "http://www.w3.org/2005/Atom"}

    assert answer.mimetype == "application/atom+xml"
    assert [title.text for title in feed.iterfind("a:entry/a:title", atom)] == [
        "train got 20.0 % faster at 0000002 Change number 40",
        "train got 20.0 % slower at 0000000 Change number 12",
        "serve.<b> got 5.0 % slower at 0000000 Change number 12",
    ]
    assert len({entry.text for entry in feed.iterfind("a:entry/a:id", atom)}) == 3
    assert feed.findtext("a:entry/a:summary", "", atom) == "1.000 s → 0.8000 s · Ada · not confirmed"


def test_is_linked_from_commits_and_incidents(client: FlaskClient) -> None:
    address = f'href="{P}/changes?commit={a_sha(12)}"'

    assert address in client.get(f"{P}/commit/{a_sha(12)}").get_data(as_text=True)
    assert address in client.get(f"{P}/incidents/1").get_data(as_text=True)


def test_the_address_before_leads_to_the_changes(client: FlaskClient) -> None:
    answer = client.get(f"{P}/impact?effect=worse&before=7")

    assert answer.status_code == 301
    assert answer.location == f"{P}/changes?since=all&moved=worse"
    assert client.get(f"{P}/impact.json").location == f"{P}/changes.json?since=all"


def test_explains_an_empty_list(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        upsert_commits(tx, "acme/new", [a_commit(1)])
    client = create_app(empty_store, clock=lambda: NOW).test_client()

    assert (
        "No commit has moved a level so far. Changes are listed here" in client.get("/acme:new/changes").text
    )
