"""The reconciliation poll recovers lost webhook deliveries, each once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from test_github_expected_changes import BODY, MERGE, merged

from perfci.service.pulls.poll_missed_events import ReconciliationPoll
from perfci.service.worker.lease import POLL_LEASE, LeasedLoop
from perfci.store import Store
from perfci.store.incidents import expected_changes_and_muted_benchmarks
from perfci.store.projects import find_project, update_project
from tests.support.builders import NOON
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.github_app_server import Server
from tests.support.github_app_server import description as description
from tests.support.github_app_server import server as server
from tests.support.signed_webhooks import HERE, a_bound_project, comment_event_payload, post
from tests.support.stateful_github import (
    HEAD,
    OWNER,
    CannedResponse,
    ConnectionFailed,
    FakeGitHub,
    Trouble,
    comment,
)

HOUR = timedelta(hours=1)


def format_github_time(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def a_run(began: datetime = NOON - HOUR, ended: datetime = NOON - HOUR / 2, **changes: Any) -> dict[str, Any]:
    """Run 17 as GitHub lists it; half an hour ago it ended."""
    times = {
        "created_at": format_github_time(began),
        "run_started_at": format_github_time(began),
        "updated_at": format_github_time(ended),
    }
    return times | changes


@pytest.fixture
def poll(server: Server) -> ReconciliationPoll:
    server.hub.runs = [a_run()]
    return ReconciliationPoll(server.store, server.app)


def test_recovers_a_lost_delivery(server: Server, poll: ReconciliationPoll) -> None:
    assert poll(server.now) == 1

    assert server.process_due_events() == 1
    assert ["### perfci: 1 regression" in each_comment["body"] for each_comment in server.hub.comments] == [
        True
    ]
    assert server.deliveries() == ["missed-17-1"]
    assert len(server.runs()) == 2


def test_does_not_recover_a_received_delivery(
    server: Server, poll: ReconciliationPoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.receive_run_event()
    monkeypatch.setattr(Store, "begin", lambda _: pytest.fail("nothing was to be written"))

    assert poll(server.now) == 0


def test_recovers_a_lost_delivery_once(server: Server, poll: ReconciliationPoll) -> None:
    server.hub.troubles = [*[None] * 5, CannedResponse(404)]  # the sixth looks for the run, and gives up
    result = poll(server.now)
    server.process_due_events()

    assert (result, poll(server.now)) == (1, 0)
    assert [state for state, _, _ in server.events()] == ["failed"]


def test_recovers_a_new_attempt_of_a_run(server: Server, poll: ReconciliationPoll) -> None:
    server.receive_run_event()
    server.now += 3 * HOUR
    server.hub.runs = [a_run() | {"run_started_at": format_github_time(NOON + HOUR), "run_attempt": 2}]

    assert poll(server.now) == 1
    assert server.deliveries() == ["d-1", "missed-17-2"]


@pytest.mark.parametrize(
    "run",
    [
        a_run(ended=NOON - timedelta(minutes=4)),
        a_run(status="in_progress"),
        a_run(began=NOON - timedelta(days=3, minutes=1)),
        a_run(event="push"),
        a_run(path=".github/workflows/lint.yml"),
        a_run(repository={"id": 1, "full_name": "acme/model", "owner": OWNER | {"id": 11}}),
    ],
    ids=["just now", "still on", "too old", "a push", "another file", "another owner"],
)
def test_ignores_runs_that_are_foreign_unfinished_or_too_recent(
    server: Server, poll: ReconciliationPoll, run: dict[str, Any]
) -> None:
    server.hub.runs = [run]

    assert (poll(server.now), server.events()) == (0, [])


ACCEPTS = "/perfci accept aaaaaaaaaa the cache is worth it"


def accept_comment(body: str = ACCEPTS, at: datetime = NOON - HOUR / 2, **changes: Any) -> dict[str, Any]:
    """A comment of somebody who may write, half an hour ago."""
    return comment(5000, body, "bob") | {"updated_at": format_github_time(at)} | changes


def test_recovers_a_lost_accept_comment(
    server: Server, poll: ReconciliationPoll, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "perfci.github")
    server.receive_run_event()
    server.process_due_events()
    server.hub.comments.append(accept_comment())
    server.hub.measured = [HEAD]

    outcomes = [poll(server.now) for _ in range(2)]
    server.process_due_events()

    assert (outcomes, [check["conclusion"] for check in server.hub.checks]) == ([1, 0], ["success"])
    assert server.deliveries() == ["d-1", "missed-comment-5000-1772364600"]
    assert "recovered missed events of acme/model: commands in comments (1)" in caplog.text


@pytest.mark.parametrize(
    "comment",
    [
        accept_comment("Looks good, /perfci accept aaaaaaaaaa I would say"),
        accept_comment(at=NOON - timedelta(minutes=4)),
        accept_comment(at=NOON - timedelta(days=3, minutes=1)),
        accept_comment(html_url="https://github.com/acme/model/issues/7#issuecomment-5000"),
    ],
    ids=["accepts nothing", "just now", "too old", "on an issue"],
)
def test_ignores_other_comments(server: Server, poll: ReconciliationPoll, comment: dict[str, Any]) -> None:
    server.hub.runs, server.hub.comments = [], [comment]

    assert (poll(server.now), server.events()) == (0, [])


def test_does_not_recover_a_received_comment(server: Server, poll: ReconciliationPoll) -> None:
    server.hub.runs, server.hub.comments = [], [accept_comment()]
    post(server.web, "issue_comment", comment_event_payload(ACCEPTS), "d-2")

    assert (poll(server.now), server.deliveries()) == (0, ["d-2"])


def a_merge(at: datetime = NOON - HOUR / 2, body: str = BODY, **changes: Any) -> dict[str, Any]:
    return (
        merged(body, merged_at=format_github_time(at), updated_at=format_github_time(max(at, NOON - HOUR)))
        | changes
    )


def test_recovers_a_lost_merge(server: Server, poll: ReconciliationPoll) -> None:
    server.hub.runs, server.hub.pulls = [], [a_merge()]

    outcomes = [poll(server.now) for _ in range(2)]
    server.process_due_events()

    with server.store.read() as tx:
        expected_changes = expected_changes_and_muted_benchmarks.load_expected_changes(tx, "acme/model")
    assert (outcomes, server.deliveries()) == ([1, 0], ["missed-merge-7"])
    assert [(row.sha, row.match, row.source) for row in expected_changes] == [(MERGE, "peak_bytes", "#7")]


@pytest.mark.parametrize(
    "proposal",
    [
        a_merge(body="Keep two layers."),
        a_merge(merged_at=None),
        a_merge(NOON - timedelta(minutes=4)),
        a_merge(NOON - timedelta(days=3, minutes=1)),
        a_merge(updated_at=format_github_time(NOON - timedelta(days=4))),
    ],
    ids=["announces nothing", "closed without a merge", "just now", "too old", "long untouched"],
)
def test_ignores_other_pull_requests(
    server: Server, poll: ReconciliationPoll, proposal: dict[str, Any]
) -> None:
    server.hub.runs, server.hub.pulls = [], [proposal]

    assert (poll(server.now), server.events()) == (0, [])


def test_recovers_runs_even_if_comments_cannot_be_listed(server: Server, poll: ReconciliationPoll) -> None:
    server.hub.troubles = [None, None, None, CannedResponse(403)]
    server.hub.comments = [accept_comment()]

    assert [poll(server.now) for _ in range(2)] == [1, 1]


def test_reads_pages_until_they_are_too_old(server: Server, poll: ReconciliationPoll) -> None:
    others = [a_run(path=".github/workflows/lint.yml")] * 150
    old = [a_run(began=NOON - timedelta(days=4), id=number) for number in range(100, 400)]
    server.hub.runs = [*others, a_run(), *old]

    assert poll(server.now) == 1
    assert sum(item.url.path.endswith("/actions/runs") for item in server.hub.received_requests) == 2


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (CannedResponse(503), "GitHub could not find who installed this App for acme/model: 503"),
        (
            CannedResponse(429, {"Retry-After": "600"}),
            "GitHub rate limit: perfci can find who installed this App for acme/model after",
        ),
        (ConnectionFailed, "could not be reached to find who installed this App for acme/model"),
    ],
    ids=["broken", "a limit", "down"],
)
def test_polls_again_if_github_does_not_answer(
    server: Server,
    poll: ReconciliationPoll,
    caplog: pytest.LogCaptureFixture,
    trouble: Trouble,
    why: str,
) -> None:
    server.hub.troubles = [trouble]

    outcomes = [poll(server.now) for _ in range(2)]

    assert "polling acme/model for missed events failed, will retry: " in caplog.text
    assert why in caplog.text
    assert outcomes == [0, 1]


def test_a_failing_repository_does_not_block_another(server: Server, poll: ReconciliationPoll) -> None:
    a_bound_project(server.store, NOON, "acme/first", replace(HERE, repository_id=0, slug="acme/first"))
    server.hub.troubles = [CannedResponse(503)]

    assert poll(server.now) == 1


def test_skips_repositories_without_the_app(
    server: Server, poll: ReconciliationPoll, caplog: pytest.LogCaptureFixture
) -> None:
    server.hub.installed = False

    assert poll(server.now) == 0
    assert [server.hub.inside(item) for item in server.hub.received_requests] == [
        "/repos/acme/model/installation"
    ]
    assert caplog.text == ""


def test_skips_archived_projects(server: Server, poll: ReconciliationPoll) -> None:
    with server.store.begin() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        update_project(tx, project.id, archived_at=NOON)

    assert (poll(server.now), server.hub.received_requests) == (0, [])


def test_only_one_process_polls(server: Server, poll: ReconciliationPoll, hub: FakeGitHub) -> None:
    first, second = (LeasedLoop(server.store, POLL_LEASE, poll, lambda: server.now) for _ in range(2))

    assert (first.run_once(), second.run_once()) == (1, 0)
    assert sum(item.url.path.endswith("/installation") for item in hub.received_requests) == 1
