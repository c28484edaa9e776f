"""The page of one incident: its facts, its history, and the forms that change it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest
from flask.testing import FlaskClient
from web_builders import NOW

from perfci.model import CandidateCommit, ChangePoint
from perfci.report.commits.explanation_text import serialize_explanation
from perfci.store import Store
from perfci.store.explanations import add_explanation
from perfci.store.incidents.incident_records import DATA_KIND
from perfci.store.incidents.incident_store import add_incident
from perfci.store.projects import find_project
from perfci.verdicts.expected_change import ExpectedChange, MergedExpectedChange
from perfci.verdicts.explain.explanation import (
    Cause,
    CauseKind,
    CodeLine,
    Conclusion,
    Explanation,
    GrowthRow,
)
from perfci.verdicts.incidents.paging_budget import ExpectedChangeMatch
from perfci_web import create_app
from perfci_web.incidents.incident_list_view_model import load_queue
from perfci_web.incidents.incident_view_model import find_queue_place
from tests.support.builders import PROJECT, a_commit, a_sha
from tests.support.evaluations import a_budgeted_incident, a_move, a_project, reconcile

P = "/acme:model/incidents"


@pytest.fixture
def client(empty_store: Store) -> Iterator[FlaskClient]:
    reconcile(
        empty_store,
        NOW - timedelta(days=1),
        a_budgeted_incident("b1", a_move("w", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x.<script>"), a_move("y")),
    )
    app = create_app(empty_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def text(client: FlaskClient, path: str) -> str:
    return unescape(client.get(path).get_data(as_text=True)).replace("<wbr>", "")


def post(client: FlaskClient, path: str, **form: object) -> tuple[int, str]:
    answer = client.post(path, data=form)
    return answer.status_code, unescape(answer.get_data(as_text=True)).replace("<wbr>", "")


def test_tells_how_to_find_which_of_several_candidates_it_was(empty_store: Store) -> None:
    candidates = tuple(CandidateCommit(a_commit(number), 1, 1.0) for number in (20, 19, 18))
    incident = a_budgeted_incident("c1", a_move("x", at=20), good=17, bad=20, candidates=candidates)
    reconcile(empty_store, NOW, incident)
    page = text(create_app(empty_store).test_client(), f"{P}/1")

    command = rf"perfci bisect {a_sha(17)[:10]}\.\.{a_sha(20)[:10]} --bench '\^x[^<]*\$' --metric \w+"
    assert re.search(rf"A bisect says which of them:</p>.*{command}", page, re.DOTALL)


def test_offers_no_bisect_where_there_is_one_candidate(client: FlaskClient) -> None:
    assert "perfci bisect" not in text(client, f"{P}/1")


def test_shows_changed_series_candidate_commits_and_state(client: FlaskClient) -> None:
    page = client.get(f"{P}/1").get_data(as_text=True)

    headline = "and 1 more series got worse, up to +20.0 %, at 0000000ccc Change number 12 (2 Mar 2026)."
    assert headline in page.replace("<wbr>", "")
    assert page.count('class="strong worse">+20.0 %') == 2
    assert "<script>" not in page.replace('<script type="module"', "")


def test_marks_the_incident_in_the_queue_beside_it(client: FlaskClient) -> None:
    pane = re.search(r'<nav class="queue-pane".*?</nav>', text(client, f"{P}/1"), re.S)

    assert pane
    assert "Queue: 1 of 2" in pane[0]
    assert re.findall(r'href="([^"]*)"( aria-current="page")?', pane[0]) == [
        (f"{P}/1", ' aria-current="page"'),
        (f"{P}/2", ""),
    ]


def test_shows_the_twenty_incidents_around_one_in_a_long_queue(empty_store: Store) -> None:
    moves = [
        a_budgeted_incident(f"a{at}", a_move(f"s{at}", at=at), good=at - 1, bad=at) for at in range(2, 52)
    ]
    reconcile(empty_store, NOW - timedelta(days=1), *moves)
    with empty_store.read() as tx:
        project = find_project(tx, "acme/model")
        assert project
        queue = load_queue(tx, project, NOW, keep=1)

    places = [find_queue_place(queue, queue[index].record.number) for index in (0, 24, 49)]

    assert [(place.hidden_before, place.hidden_after) for place in places] == [(0, 30), (14, 16), (30, 0)]
    assert all(place.entries == tuple(queue[place.hidden_before :][:20]) for place in places)


@pytest.mark.parametrize(
    ("beyond", "says", "chip"),
    [
        (
            (),
            [
                "<dt>Reason</dt><dd>expected, declared in #12: <b>more</b> of each</dd>",
                "as expected: no alert",
            ],
            True,
        ),
        (
            (a_move("w"),),
            ["<dd>larger than expected: #12 declared +20.0 %; w got 20.0 % slower</dd>"],
            False,
        ),
    ],
    ids=["as announced", "more"],
)
def test_shows_the_expected_change(
    client: FlaskClient, empty_store: Store, beyond: tuple[ChangePoint, ...], says: list[str], chip: bool
) -> None:
    expected = MergedExpectedChange(a_sha(12), ExpectedChange("*", 0.2, "<b>more</b> of each"), "#12")
    reconcile(
        empty_store,
        NOW,
        replace(
            a_budgeted_incident("c1", a_move("w")),
            expected_change_match=ExpectedChangeMatch((expected,), beyond),
        ),
    )

    page = client.get(f"{P}/3").get_data(as_text=True).replace("<wbr>", "")

    assert "<b>more" not in page
    assert [each_say for each_say in says if each_say not in unescape(page)] == []
    assert ("accepted</span>" in page) is chip


def test_links_each_incident_by_its_number(client: FlaskClient) -> None:
    page = text(client, P)

    assert "2 open incidents." in page
    assert re.findall(rf'href="{P}/(\d)"', page) == ["1", "2"]


def test_changes_an_incident_by_form_and_records_it(client: FlaskClient) -> None:
    form = {"revision": 1, "state": "investigating", "assignee": "Ada", "note": "first\r\nsecond"}

    status, _ = post(client, f"{P}/1", **form)

    page = text(client, f"{P}/1")
    assert status == 303
    assert "new → investigating" in page
    assert "first<br>second" in page


def test_refuses_a_change_from_an_older_revision(client: FlaskClient) -> None:
    post(client, f"{P}/1", revision=1, state="investigating")

    status, page = post(client, f"{P}/1", revision=1, state="invalid")

    assert status == 409
    assert "Incident 1 was changed meanwhile and is investigating now (revision 2): reload it." in page


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"state": "accepted"}, "Accepting needs a reason and a day in the future until which it holds."),
        (
            {"state": "duplicate", "duplicate_of": "seven"},
            "What it is a duplicate of must be the number of an incident.",
        ),
        (
            {"issue_url": "javascript:alert(1)"},
            "The issue must be an address that begins with https:// or http://",
        ),
        ({"due_at": "soon"}, "'soon' is no day; expected for example 2026-05-04."),
        ({"revision": "x"}, "The form does not say which revision it was made from: load the page again."),
    ],
)
def test_explains_a_rejected_form(client: FlaskClient, form: dict[str, str], sentence: str) -> None:
    status, page = post(client, f"{P}/1", **({"revision": "1"} | form))

    assert (status, sentence in page) == (409, True)


def test_changes_selected_incidents_together(client: FlaskClient) -> None:
    post(client, f"{P}/2", revision=1, assignee="Bob")

    status, page = post(client, P, pick=["1:1", "2:1"], state="invalid", reason="noise")

    assert (status, "1 changed; somebody else changed #2 meanwhile: reload" in page) == (409, True)
    assert "1 open incident, 1 closed or informational." in page


def test_merges_splits_and_moves_the_boundary(client: FlaskClient) -> None:
    assert post(client, f"{P}/1/merge", revision=1, others="#2")[0] == 303
    assert "2 more series" in text(client, f"{P}/1")
    chosen = re.findall(r'name="series" value="(\w{64})"', text(client, f"{P}/1"))

    assert post(client, f"{P}/1/split", revision=2, series=chosen[0])[0] == 303
    status, page = post(client, f"{P}/1/move-boundary", revision=3, commit_offset="-1")
    assert (status, "Give the number of commits" in page) == (409, False)  # nothing was ever measured there

    assert "came out of 1" in text(client, f"{P}/3")


@pytest.mark.parametrize("offset", ["", "+-5", "1.5", "-10000"])
def test_says_what_moves_a_boundary(client: FlaskClient, offset: str) -> None:
    status, page = post(client, f"{P}/1/move-boundary", revision=1, commit_offset=offset)

    assert status == 409
    assert "Give the number of commits to move the boundary by, for example -1." in page


def test_shows_missing_data_on_a_page_of_its_own_kind(client: FlaskClient, empty_store: Store) -> None:
    project = a_project(empty_store)
    columns = {
        "derived_id": "late",
        "kind": DATA_KIND,
        "state": "new",
        "last_good": "",
        "commit": "",
        "series_count": 0,
        "first_seen": NOW,
        "changed_at": NOW,
        "headline": "The suite nightly is late",
    }
    with empty_store.begin() as tx:
        add_incident(tx, project.id, columns)

    assert "The suite nightly is late." in text(client, f"{P}/3")
    assert "3 open incidents." in text(client, P)


def test_suggests_existing_incidents_for_an_unknown_number(client: FlaskClient) -> None:
    answer = client.get(f"{P}/99")

    assert answer.status_code == 404
    assert "has no incident 99" in answer.get_data(as_text=True)


def test_shows_no_forms_on_a_read_only_server(client: FlaskClient, empty_store: Store) -> None:
    shown = create_app(empty_store, clock=lambda: NOW).test_client()

    page = shown.get(f"{P}/1").get_data(as_text=True)

    assert 'method="post"' not in page
    assert shown.post(f"{P}/1", data={"revision": 1, "state": "invalid"}).status_code == 405


def an_explanation() -> Explanation:
    """A line of hostile text that takes 3 ms more."""
    line = CodeLine("net.py", 10, "x = sort(x)  # <script>", "model")
    cause = Cause(CauseKind.CHANGED_CODE, "forward", "aten::sort", line, 0.003, 0.92, 0.85, 0.97)
    rows = (GrowthRow("net.py:10: <b>sort</b>", 0.0, 0.003),)
    return Explanation(Conclusion.EXPLAINED, 0.015, 0.018, 4, causes=(cause,), lines=rows)


def store_explanation(store: Store, base: str, head: str) -> None:
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        add_explanation(
            tx,
            project.id,
            base=base,
            head=head,
            cell="x",
            metric="time",
            conclusion="explained",
            document=serialize_explanation(an_explanation()),
            at=NOW,
        )


def test_tells_how_to_explain_an_incident_that_is_not_explained(client: FlaskClient) -> None:
    page = text(client, f"{P}/1")

    command = r"perfci explain 1 --bench '^x\.<script>$'"
    assert command in page[page.index("Profiles of both commits say it:") :]


def test_shows_the_line_that_explains_an_incident(empty_store: Store) -> None:
    reconcile(empty_store, NOW, a_budgeted_incident("e1", a_move("x", at=20), good=17, bad=20))
    store_explanation(empty_store, a_sha(17), a_sha(20))
    client = create_app(empty_store).test_client()
    raw = client.get(f"{P}/1").get_data(as_text=True)
    fields = client.get(f"{P}/1.json").get_json()["explanations"][0]

    sentence = (
        "net.py:10 x = sort(x)  # <script> takes 3.000 ms more of each call in forward, most of it "
        "aten::sort: 92 % of the slowdown [85, 97]."
    )
    assert sentence in unescape(raw).replace("<wbr>", "")
    assert "<script> takes" not in raw
    assert "<b>sort</b>" not in raw
    assert "perfci explain" not in raw
    assert (fields["sentence"], fields["causes"][0]["line"]["number"]) == (sentence, 10)
