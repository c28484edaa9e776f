"""The page of a week, and the same as text, Markdown, JSON and feed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape
from xml.etree import ElementTree

import pytest
from flask.testing import FlaskClient
from web_builders import NOW

from perfci.model import IncidentKind, IncidentState
from perfci.report.incidents.week_report import Week, parse_week, week_headline, week_of
from perfci.service.incidents.incident_update_rules import IncidentUpdate
from perfci.service.incidents.triage import update_incident
from perfci.store import Store
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.verdicts.incidents.paging_budget import Disposition
from perfci_web import create_app
from tests.support.builders import PROJECT, a_commit, a_sha, acting_as
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

SEEN = datetime.fromisoformat("2026-03-05T12:00:00+00:00")
WEEK = "/acme:model/week/2026-W10"
ATOM = "{http://www.w3.org/2005/Atom}"
SHA_12, SHA_20, SHA_40 = (a_sha(number) for number in (12, 20, 40))
EXPECTED_TEXT = f"""acme/model, week 2026-W10, 2 Mar 2026 to 8 Mar 2026

3 changes for the worse, 1 for the better, 1 incident fixed; 1 open at its end.

Got worse (3)
- decode got 20.0 % slower at 0000001 Change number 20
  Ada · 2 Mar 2026 · not confirmed · #1 fixed · nobody owns it
  http://localhost/acme:model/changes?commit={SHA_20}
- train got 20.0 % slower at 0000000 Change number 12
  Ada · 2 Mar 2026 · not confirmed · #2 new · ada
  http://localhost/acme:model/changes?commit={SHA_12}
- serve.<b> got 5.0 % slower at 0000000 Change number 12
  Ada · 2 Mar 2026 · not confirmed · #2 new · ada
  http://localhost/acme:model/changes?commit={SHA_12}

Got better (1)
- train got 20.0 % faster at 0000002 Change number 40
  Ada · 3 Mar 2026 · not confirmed · #3 new · nobody owns it
  http://localhost/acme:model/changes?commit={SHA_40}

Fixed (1)
- #1 decode got worse, +20.0 %, at 00000014cc Change number 20 (2 Mar 2026)
  fixed since 6 Mar 2026 · nobody owns it
  http://localhost/acme:model/incidents/1

Open at its end (1)
- #2 train and 1 more series got worse, up to +20.0 %, at 0000000ccc Change number 12 (2 Mar 2026)
  new since 5 Mar 2026 · ada
  http://localhost/acme:model/incidents/2
"""


@pytest.fixture
def store(empty_store: Store) -> Store:
    """Two losses and a gain by commits of one week; one loss was taken in it, another one fixed."""
    with empty_store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(1, 61)])
    noted = {"kind": IncidentKind.IMPROVEMENT, "disposition": Disposition.NOTE}
    gain = a_budgeted_incident("b1", a_move("train", at=40, rel=-0.2), good=39, bad=40, **noted)
    losses = [
        a_budgeted_incident("a1", a_move("train"), a_move("serve.<b>", rel=0.05)),
        a_budgeted_incident("c1", a_move("decode", at=20), good=19, bad=20),
    ]
    reconcile(empty_store, SEEN, gain, *losses)
    project = a_project(empty_store)
    with empty_store.begin() as tx:
        taken, fixed = IncidentUpdate(assignee="ada"), IncidentUpdate(IncidentState.FIXED)
        update_incident(tx, project, 2, 1, taken, acting_as("ada", SEEN))
        update_incident(tx, project, 1, 1, fixed, acting_as("ada", SEEN + timedelta(days=1)))
    return empty_store


@pytest.fixture
def client(store: Store) -> FlaskClient:
    return create_app(store, clock=lambda: NOW).test_client()


def words(client: FlaskClient, path: str) -> str:
    page = client.get(path).get_data(as_text=True).replace("<wbr>", "")
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2])).split())


def test_tells_a_week_in_plain_text(client: FlaskClient) -> None:
    answer = client.get(f"{WEEK}.txt")

    assert answer.content_type == "text/plain; charset=utf-8"
    assert answer.text == EXPECTED_TEXT


def test_a_week_that_is_over_keeps_what_it_told(store: Store, client: FlaskClient) -> None:
    later = acting_as("bob", SEEN + timedelta(days=7))
    with store.begin() as tx:
        update = IncidentUpdate(IncidentState.FIXED, assignee="bob")
        update_incident(tx, a_project(store), 2, 2, update, later)

    assert client.get(f"{WEEK}.txt").text == EXPECTED_TEXT
    assert "1 incident fixed; none open at its end" in words(client, "/acme:model/week/2026-W11")


def test_the_page_says_the_same_and_leads_to_the_weeks_beside_it(client: FlaskClient) -> None:
    page = words(client, WEEK)

    assert "3 changes for the worse, 1 for the better, 1 incident fixed; 1 open at its end." in page
    assert "serve.<b> got 5.0 % slower at 0000000 Change number 12 Ada · 2 Mar 2026 · not confirmed" in page
    assert "← 2026-W09 2026-W11 →" in page


def test_markdown_keeps_names_in_code_spans(client: FlaskClient) -> None:
    lines = client.get(f"{WEEK}.md").text.splitlines()

    assert lines[0] == "## Week 2026-W10, 2 Mar 2026 to 8 Mar 2026"
    assert (
        "- `serve.<b> got 5.0 % slower at 0000000 Change number 12` "
        "`Ada · 2 Mar 2026 · not confirmed · #2 new · ada` "
        f"[open](http://localhost/acme:model/changes?commit={SHA_12})"
    ) in lines


def test_json_has_the_same_sections(client: FlaskClient) -> None:
    week = client.get(f"{WEEK}.json").get_json()

    assert (week["week"], week["is_over"]) == ("2026-W10", True)
    assert [(section["title"], section["count"]) for section in week["sections"]] == [
        ("Got worse", 3),
        ("Got better", 1),
        ("Fixed", 1),
        ("Open at its end", 1),
    ]


def test_the_feed_has_the_last_weeks_that_are_over(client: FlaskClient) -> None:
    feed = ElementTree.fromstring(client.get("/acme:model/week.atom").data)

    titles = [entry.findtext(f"{ATOM}title") for entry in feed.iter(f"{ATOM}entry")]
    assert titles == [
        f"Week 2026-W{number}: Nothing changed; 1 open at its end" for number in range(14, 10, -1)
    ]


def test_the_overview_leads_to_this_week(client: FlaskClient) -> None:
    assert '<a href="/acme:model/week">this week</a>' in client.get("/acme:model/").text
    assert client.get("/acme:model/week").location == f"/acme:model/week/{week_of(NOW)}"


@pytest.mark.parametrize("week", ["2026-W00", "2026-W54", "2025-W53", "0000-W01", "9999-W52", "2026-W1", "x"])
def test_there_is_no_such_week(client: FlaskClient, week: str) -> None:
    assert client.get(f"/acme:model/week/{week}").status_code == 404


def test_weeks_follow_each_other_over_the_end_of_a_year() -> None:
    assert (Week(2026, 53).next, Week(2027, 1).previous) == (Week(2027, 1), Week(2026, 53))
    assert parse_week("2026-W53") == week_of(datetime.fromisoformat("2027-01-03T23:59:00+00:00"))


@pytest.mark.parametrize(
    ("counts", "headline"),
    [
        ((0, 0, 0, 0), "Nothing changed; none open at its end"),
        ((1, 0, 0, 2), "1 change for the worse; 2 open at its end"),
        ((0, 3, 2, 0), "3 changes for the better, 2 incidents fixed; none open at its end"),
    ],
)
def test_the_headline_of_a_week(counts: tuple[int, int, int, int], headline: str) -> None:
    assert week_headline(*counts, is_over=True) == headline
