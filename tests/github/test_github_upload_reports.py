"""The App reports on what a pull request uploaded: comment and check, edited as uploads arrive."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfci.model import Commit
from perfci.report.escaping import code_span
from perfci.service.pulls.github_event_handler import NOTHING_KEPT
from perfci.store.access import github_bindings
from perfci.store.projects import find_project
from tests.support.builders import a_process, a_result, a_series
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.github_app_server import Server
from tests.support.github_app_server import description as description
from tests.support.github_app_server import server as server
from tests.support.pull_request_uploads import LATER, WOBBLES, judge, main_run, pull_run, timed
from tests.support.stateful_github import HEAD, NEWER, OWNER

EXPECTED = Path(__file__).with_name("upload_comment.md")


def report(server: Server, *levels: float, head: str = HEAD, number: str = "7", first: int = 1) -> int:
    """Upload runs of a head, judge them and let the App report; return how many events it processed."""
    runs = [
        pull_run(timed(level), step=step, number=number, commit=Commit(head))
        for step, level in enumerate(levels, first)
    ]
    judge(server.store, runs, head)
    return server.process_due_events()


@pytest.fixture
def measured(server: Server) -> Server:
    """A server whose main branch has twelve runs."""
    server.now = LATER
    server.hub.pulls[0]["base"]["repo"]["owner"] = OWNER
    judge(server.store, [main_run(number) for number in range(1, 13)])
    return server


def test_reports_an_upload_and_edits_the_comment_as_more_arrive(measured: Server) -> None:
    report(measured, 1.2)
    assert measured.events() == [("done", 0, "")]
    (first,) = measured.hub.comments
    assert "1 upload of this head against 12 runs of the main branch in 2 days" in first["body"]

    assert report(measured, 1.21, 1.19, first=2) == 1

    (comment,), checks = measured.hub.comments, measured.hub.checks
    assert comment["body"] == EXPECTED.read_text()
    assert (comment["id"], comment["issue"]) == (first["id"], 7)
    assert [(check["name"], check["conclusion"], check["head_sha"]) for check in checks] == [
        ("perfci", "neutral", HEAD)
    ]


def test_a_head_that_moved_nothing_gets_a_check_and_no_comment(measured: Server) -> None:
    report(measured, 1.0)

    assert measured.hub.comments == []
    assert [check["conclusion"] for check in measured.hub.checks] == ["success"]


def test_a_commit_that_is_not_the_newest_is_not_reported(measured: Server) -> None:
    """Whoever may upload can claim any commit and any number; GitHub says what the pull request is."""
    report(measured, 3.0, head=NEWER)

    assert (measured.hub.comments, measured.hub.checks) == ([], [])
    assert measured.events()[-1][2] == NOTHING_KEPT


def test_uploads_of_another_pull_request_do_not_change_the_report(measured: Server) -> None:
    report(measured, 1.0)
    report(measured, 3.0, number="8", first=8)
    report(measured, 1.001, first=2)

    assert [check["conclusion"] for check in measured.hub.checks] == ["success"]


def test_names_of_an_upload_are_escaped_in_the_comment(measured: Server) -> None:
    hostile = a_series("`@everyone` <b>|x](https://evil.example)")
    runs = [main_run(20 + n, a_result(hostile, a_process(1.0 + wobble))) for n, wobble in enumerate(WOBBLES)]
    origin = tuple(item for item in pull_run().origin if item[0] != "base")
    head = pull_run(a_result(hostile, a_process(1.5)), commit=Commit(HEAD), origin=origin)

    judge(measured.store, [*runs, head], HEAD)
    measured.process_due_events()

    (comment,) = measured.hub.comments
    assert "1 regression" in comment["body"]
    assert code_span(hostile.cell, in_table=True) in comment["body"]
    assert "@everyone" not in comment["body"].replace(code_span(hostile.cell, in_table=True), "").replace(
        code_span(hostile.label), ""
    )


def test_a_project_without_a_repository_is_reported_nowhere(measured: Server) -> None:
    with measured.store.begin() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        github_bindings.unbind_repository(tx, project.id)

    assert report(measured, 1.2) == 0
