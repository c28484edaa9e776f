"""The overview against the last release, and since the reader last looked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.cookies import SimpleCookie

import pytest
from flask.testing import FlaskClient
from page_reading import P, words
from web_builders import COMMITS, NOW, PROJECT, STEP, a_commit, a_run, a_store, fill

from perfci.history.change_since_release import ClassChange
from perfci.model import Interval, MetricClass
from perfci.store import Store
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci_web import create_app
from perfci_web.overview.last_look import LOOKED_COOKIE, find_last_look
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

MODEL = "/acme:model/"


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """The project with a release right before the step of 18.3 %."""
    store = a_store(tmp_path_factory.mktemp("released"))
    fill(store)
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [replace(a_commit(STEP - 1), tags=("v1.0",))])
        start_session(tx, PROJECT, "history-feature", "history", "spec-3", 7, 1, NOW)
        for number in (1, 2):
            commit = replace(a_commit(number), sha=f"{number}" * 40, branch="feature/x")
            find_or_add_run(tx, replace(a_run(number), session="history-feature", commit=commit))
    yield create_app(store, clock=lambda: NOW).test_client()
    store.close()


def test_the_scorecard_compares_with_the_last_release(released: FlaskClient) -> None:
    scorecard = released.get(f"{P}.json").json["scorecard"]
    text = words(released.get(f"{P}/").text)

    by_class = {change["metric_class"]: change for change in scorecard["classes"]}
    assert scorecard["release"] == "v1.0"
    assert scorecard["commit"] == a_commit(STEP - 1).sha
    assert by_class["count"]["outcome"] == "unchanged"
    assert by_class["memory"]["outcome"] == "worse"
    # One of its two series grew by 9 %.
    assert by_class["memory"]["ratio"] == pytest.approx(1.09**0.5, abs=0.005)
    assert f"Against v1.0 {a_commit(STEP - 1).sha[:7]}" in text
    assert re.search(r"memory ?\+\d\.\d % ?\[\+\d\.\d, \+\d\.\d\] ?worse ?2", text)


def test_without_a_release_it_compares_with_a_month_before(client: FlaskClient) -> None:
    scorecard = client.get(f"{P}.json").json["scorecard"]

    assert scorecard["release"] == ""
    assert "Against a month before" in words(client.get(f"{P}/").text)
    assert a_commit(COMMITS - 1).committed_at - timedelta(days=30) >= a_commit(8).committed_at


def test_the_scorecard_compares_with_what_the_address_names(released: FlaskClient) -> None:
    sha = a_commit(STEP + 4).sha

    of_sha, of_tag = (
        released.get(f"{P}.json?against={name}").json["scorecard"] for name in (sha[:8], "v1.0")
    )

    assert (of_sha["release"], of_sha["commit"]) == ("commit", sha)
    by_class = {change["metric_class"]: change["outcome"] for change in of_sha["classes"]}
    # Only the growth of memory came after it.
    assert (by_class["memory"], by_class["count"]) == ("worse", "unchanged")
    assert of_tag == released.get(f"{P}.json").json["scorecard"]
    page = released.get(f"{P}/?since=all&against={sha[:8]}").text
    assert f"Against commit {sha[:7]}" in words(page)
    assert f'<input id="against" name="against" value="{sha[:8]}"' in page
    assert '<input type="hidden" name="since" value="all">' in page


def test_a_branch_is_compared_with_the_end_of_the_newest_one(released: FlaskClient) -> None:
    scorecard = released.get(f"{P}.json?against=feature/x").json["scorecard"]

    by_class = {change["metric_class"]: change for change in scorecard["classes"]}
    assert (scorecard["release"], scorecard["commit"]) == ("branch feature/x", "2" * 40)
    assert by_class["memory"]["ratio"] == pytest.approx(1.09**0.5, abs=0.005)


@pytest.mark.parametrize(
    ("against", "sentence"),
    [
        ("v9<b>", f"{PROJECT} knows no tag, branch or commit v9<b>: is it measured?"),
        (
            a_commit(COMMITS - 1).sha,
            f"Nothing was measured both up to commit ({a_commit(COMMITS - 1).sha[:10]}) and after it by the "
            "same suite in the same place.",
        ),
        (
            "main",
            f"Nothing was measured both up to branch main ({a_commit(COMMITS - 1).sha[:10]}) and after it by "
            "the same suite in the same place.",
        ),
    ],
)
def test_says_why_there_is_no_scorecard(released: FlaskClient, against: str, sentence: str) -> None:
    page = released.get(f"{P}/", query_string={"against": against}).text
    document = released.get(f"{P}.json", query_string={"against": against}).json

    assert sentence in words(page)
    assert "<b>:" not in page
    assert (document["scorecard"], document["scorecard_problem"]) == (None, sentence)


@pytest.mark.parametrize(
    ("interval", "outcome"),
    [
        (None, "inconclusive"),
        (Interval(0.97, 1.04), "inconclusive"),
        (Interval(0.995, 1.005), "unchanged"),
        (Interval(1.001, 1.005), "unchanged"),
        (Interval(1.01, 1.05), "worse"),
        (Interval(0.9, 0.98), "better"),
    ],
)
def test_only_an_interval_says_worse_or_better(interval: Interval | None, outcome: str) -> None:
    assert ClassChange(MetricClass.TIME, 1.02, interval, 10, 0).outcome == outcome


@pytest.fixture
def triaged(empty_store: Store) -> Iterator[FlaskClient]:
    reconcile(empty_store, NOW - timedelta(days=3), a_budgeted_incident("b1", a_move("old"), good=19, bad=20))
    reconcile(
        empty_store,
        NOW - timedelta(hours=1),
        a_budgeted_incident("b1", a_move("old", at=20), good=19, bad=20),
        a_budgeted_incident("a1", a_move("x.<script>"), a_move("y")),
    )
    app = create_app(empty_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def look(client: FlaskClient, ago: timedelta) -> None:
    client.set_cookie(LOOKED_COOKIE, str(int((NOW - ago).timestamp())), path=MODEL)


def test_the_first_look_is_remembered_by_its_second_alone(triaged: FlaskClient) -> None:
    answer = triaged.get(MODEL)

    [cookie] = SimpleCookie(answer.headers["Set-Cookie"]).values()
    assert (cookie.key, cookie.value) == (LOOKED_COOKIE, str(int(NOW.timestamp())))
    assert (cookie["path"], cookie["samesite"], cookie["httponly"]) == (MODEL, "Lax", True)
    assert "Since you last looked" not in answer.text


def test_says_what_is_new_since_the_last_look(triaged: FlaskClient) -> None:
    look(triaged, timedelta(days=1))

    answer = triaged.get(MODEL)

    text = words(answer.text)
    assert "Since you last looked, 1 day ago: 1 new incident" in text
    assert "acme/model since 11 Apr 2026, 12:14 UTC: 1 new incident" in text
    assert re.search(r"#2 new: .* http://localhost/acme:model/incidents/2", text)
    assert "<script>alert" not in answer.text
    assert "Set-Cookie" not in answer.headers


def test_marks_everything_as_seen(triaged: FlaskClient) -> None:
    look(triaged, timedelta(days=1))

    answer = triaged.get(f"{MODEL}?since=all&looked=now")

    assert (answer.status_code, answer.location) == (303, f"{MODEL}?since=all")
    assert "Since you last looked, just now: nothing new" in words(triaged.get(MODEL).text)


@pytest.mark.parametrize("value", ["", "soon", "-1", "9" * 11, "9" * 40, "１２", "1e9"])
def test_a_cookie_without_a_past_time_counts_as_none(value: str) -> None:
    assert find_last_look({LOOKED_COOKIE: value}, NOW) is None
