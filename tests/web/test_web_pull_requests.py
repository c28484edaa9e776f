"""The list of measured pull requests, and the way from a number to a comparison."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from flask.testing import FlaskClient
from page_reading import P, read, words
from web_builders import NOW, PROJECT, STEP_TIME, a_commit, a_run, a_store, a_verdict

from perfci.model import Commit, Run, VerdictKind
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci_web import create_app

BASE, HEAD = a_commit(2), a_commit(3)
SEPARATE = Commit("c" * 40, "Shrink the cache", "Grace Hopper")


@pytest.fixture(scope="module")
def pulls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """Number 12 with pairs and a verdict, number 7 with an upload, and an origin that is no number."""
    with closing(a_store(tmp_path_factory.mktemp("pulls"))) as store:
        with store.begin() as tx:
            upsert_commits(tx, PROJECT, [BASE, HEAD, SEPARATE])
            for session in ("pairs", "upload", "hostile"):
                start_session(tx, PROJECT, session, "pull_request", session, 7, 0, NOW)
            for session, commit, origin in (
                ("pairs", BASE, {"compared_pull_request": "12"}),
                ("pairs", HEAD, {"compared_pull_request": "12"}),
                ("upload", SEPARATE, {"pull_request": "7", "base": BASE.sha}),
                ("hostile", SEPARATE, {"pull_request": "<b>9</b>"}),
            ):
                find_or_add_run(tx, a_pull_run(session, commit, origin))
            verdict = a_verdict(STEP_TIME, 3, VerdictKind.REGRESSION, 1.2, (1.1, 1.3))
            add_verdicts(tx, PROJECT, "pairs", [verdict], NOW)
        yield create_app(store, clock=lambda: NOW).test_client()


def a_pull_run(session: str, commit: Commit, origin: dict[str, str]) -> Run:
    started = NOW - timedelta(hours=1)
    return replace(a_run(3), session=session, commit=commit, origin=tuple(origin.items()), started_at=started)


def test_lists_pull_requests_with_their_verdicts(pulls: FlaskClient) -> None:
    text = words(read(pulls, f"{P}/pulls"))

    assert "2 pull requests measured." in text
    assert re.search("#12 .* 1 regression", text)
    assert "#7 ccccccc Shrink the cache Grace Hopper 12 Apr 2026 none yet" in text
    assert [row["number"] for row in pulls.get(f"{P}/pulls.json").get_json()["pull_requests"]] == [7, 12]


def test_a_number_leads_to_its_comparison(pulls: FlaskClient) -> None:
    answer = pulls.get(f"{P}/pr/12")

    assert (answer.status_code, answer.location) == (302, f"{P}/compare/{BASE.sha}...pr:12")
    assert f"head pull request #12 at {HEAD.sha[:7]}" in words(read(pulls, answer.location))


def test_an_unknown_number_gets_a_sentence(pulls: FlaskClient) -> None:
    answer = pulls.get(f"{P}/pr/99")
    side = pulls.get(f"{P}/compare/{BASE.sha}...pr:99")

    assert answer.status_code == side.status_code == 404
    assert "Nothing was measured for the pull request #99" in words(answer.text)
    assert f'href="{P}/pr/12"' in side.text


def test_says_how_a_first_one_is_measured(client: FlaskClient) -> None:
    assert "perfci upload results.json --pull-request 12" in words(read(client, f"{P}/pulls"))
