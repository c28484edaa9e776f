"""Expected changes of a merged pull request reach the server by webhook or from the job that uploads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from test_github_commands import Job
from test_github_commands import branched as branched
from test_github_commands import job as job

from perfci.cli import run_cli
from perfci.github.client import open_github_client
from perfci.net.api_client import ApiClient
from perfci.net.http_client import open_http_client
from perfci.service.uploads import send_to_server
from perfci.store import Store
from perfci.store.access import audit_log
from perfci.store.incidents import expected_changes_and_muted_benchmarks
from perfci.store.incidents.expected_changes_and_muted_benchmarks import ExpectedChangeRecord
from perfci.store.jobs import work_queue_and_leases
from perfci.store.projects import create_project, find_project
from perfci_web import create_app
from tests.support.builders import NOON
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.github_app_server import Server
from tests.support.github_app_server import description as description
from tests.support.github_app_server import server as server
from tests.support.github_payloads import example
from tests.support.npm_packages import skip_without_npm
from tests.support.signed_webhooks import INSTALLATION, post
from tests.support.stateful_github import BASE, HEAD, OWNER, CannedResponse, FakeGitHub, pull

MERGE = "d" * 40
MERGED_AT = datetime(2026, 3, 1, 11, 30, tzinfo=UTC)
BODY = "Keep two layers.\n\nPerfci-Expect: peak_bytes +3% the cache holds two layers\n"
STORED = ExpectedChangeRecord(MERGE, "peak_bytes", 0.03, "the cache holds two layers", "#7", MERGED_AT)


def merged(body: str = BODY, author: str = "ada", **changes: Any) -> dict[str, Any]:
    """A pull request that was merged into main."""
    proposal = pull()
    proposal["base"]["repo"] = {"id": 1, "full_name": "acme/model", "owner": OWNER}
    about = {"state": "closed", "merged_at": "2026-03-01T11:30:00Z", "merge_commit_sha": MERGE}
    return proposal | about | {"body": body, "user": {"id": 3, "login": author}} | changes


def merge_event(proposal: dict[str, Any]) -> dict[str, Any]:
    """What GitHub tells its App of a pull request that was closed."""
    repository = {"id": 1, "full_name": "acme/model", "owner": OWNER}
    payload = example("pull_request", "closed", number=7, pull_request=proposal, repository=repository)
    return payload | {"installation": {"id": INSTALLATION}}


def receive_merge_event(server: Server, proposal: dict[str, Any], delivery: str = "d-1") -> int:
    """GitHub has the pull request, and tells that it was closed."""
    server.hub.pulls = [proposal]
    return post(
        server.web, "pull_request", skip_without_npm(lambda: merge_event(proposal)), delivery
    ).status_code


def load_stored(store: Store) -> list[ExpectedChangeRecord]:
    with store.read() as tx:
        return expected_changes_and_muted_benchmarks.load_expected_changes(tx, "acme/model")


def test_stores_expected_changes_of_a_merge_webhook(server: Server) -> None:
    assert receive_merge_event(server, merged()) == 202

    assert server.process_due_events() == 1

    assert (load_stored(server.store), server.events()) == ([STORED], [("done", 0, "")])
    with server.store.read() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        (line,) = [
            entry
            for entry in audit_log.list_entries(tx, project.id)
            if entry.action == "expected_change.record"
        ]
        assert [
            each_job.subject
            for each_job in work_queue_and_leases.load_next_project_work(tx, ["evaluate"], 9, server.now)
        ] == ["expected_changes"]
    assert (line.actor, line.subject, line.request_id) == (
        "github-repository/1",
        f"#7 at {MERGE[:12]}",
        "d-1",
    )


def test_stores_a_repeated_webhook_once(server: Server) -> None:
    answers = [receive_merge_event(server, merged(), name) for name in ("d-1", "d-1", "d-2")]

    server.process_due_events()

    assert (answers, len(load_stored(server.store))) == ([202, 200, 202], 1)


def test_stores_expected_changes_from_a_deleted_fork(server: Server) -> None:
    proposal = merged()
    receive_merge_event(server, proposal | {"head": proposal["head"] | {"repo": None}})

    server.process_due_events()

    assert load_stored(server.store) == [STORED]


@pytest.mark.parametrize(
    "proposal",
    [merged(body="Keep two layers."), merged(body=""), merged(merged_at=None)],
    ids=["nothing announced", "nothing said", "closed without a merge"],
)
def test_stores_nothing_for_a_merge_without_expected_changes(
    server: Server, proposal: dict[str, Any]
) -> None:
    assert (receive_merge_event(server, proposal), server.events()) == (200, [])


BRANCH = "acme/model#7 is merged into no branch whose history is kept."
NOBODY = "No expected change by an author with write access."


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"user": {"id": 9, "login": "mallory"}}, NOBODY),
        ({"user": None}, NOBODY),
        ({"body": "I take it back."}, NOBODY),
        ({"base": merged()["base"] | {"ref": "release"}}, BRANCH),
        ({"merged_at": None}, BRANCH),
        (
            {"base": merged()["base"] | {"repo": {"id": 2, "full_name": "acme/model", "owner": OWNER}}},
            "The project is bound to another repository by now.",
        ),
    ],
    ids=[
        "a stranger",
        "an account that is gone",
        "taken back",
        "another branch",
        "never merged",
        "another repository",
    ],
)
def test_ignores_expected_changes_that_do_not_count(
    server: Server, changes: dict[str, Any], why: str
) -> None:
    receive_merge_event(server, merged())
    server.hub.pulls = [merged() | changes]

    server.process_due_events()

    assert (load_stored(server.store), server.events()) == ([], [("done", 0, why)])


def test_retries_if_github_does_not_answer(server: Server) -> None:
    receive_merge_event(server, merged())
    server.hub.troubles = [CannedResponse(503)]

    server.process_due_events()
    before = load_stored(server.store)
    server.process_due_events()

    assert (before, load_stored(server.store)) == ([], [STORED])


Announce = Callable[..., int]


@pytest.fixture
def upload_job(
    job: Job, store: Store, hub: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Announce]:
    """A job of a push to main that brought some commits, with a token that may read pull requests."""
    with store.begin() as tx:
        create_project(tx, "acme/model", "private", NOON)
    app = create_app(store, read_only=False, clock=lambda: NOON)
    transport = httpx.WSGITransport(app=app)
    monkeypatch.setattr(
        "perfci.cli.github.commands.open_github_client",
        lambda token, url: open_github_client(token, hub.description.base_url, transport=hub),
    )
    monkeypatch.setattr(
        send_to_server,
        "build_api_client",
        lambda config, url: ApiClient(open_http_client("http://localhost:8787", transport=transport)),
    )

    def announce(*proposals: dict[str, Any], commits: Sequence[str] = (MERGE,)) -> int:
        hub.pulls = list(proposals)
        event = {
            "ref": "refs/heads/main",
            "before": BASE,
            "after": MERGE,
            "commits": [{"id": commit} for commit in commits],
        }
        event["repository"] = {"id": 1, "full_name": "acme/model"}
        job.set_event("push", event, TOKEN="t0ken", SHA=MERGE, REF="refs/heads/main")
        return run_cli(
            ["github", "announce", "--server", "https://perf.example.com", "--project", "acme/model"]
        )

    yield announce
    app.extensions["perfci"].group_commit.close()


def test_the_upload_job_sends_expected_changes(
    upload_job: Announce, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [upload_job(merged()) for _ in range(2)]

    assert (codes, load_stored(store)) == ([0, 0], [STORED])
    assert capsys.readouterr().out.splitlines() == [
        "dddddddddddd: 1 expected change found, 1 sent to https://perf.example.com",
        "dddddddddddd: 1 expected change found, 0 sent to https://perf.example.com, the others "
        "were already stored",
    ]


def test_queries_every_pull_request_of_a_push(
    upload_job: Announce, store: Store, hub: FakeGitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    slower = {
        "number": 8,
        "merge_commit_sha": HEAD,
        "body": "Perfci-Expect: step_time +5% it waits for the disk",
    }
    proposals = [merged(), merged(**slower)]

    code = upload_job(*proposals, commits=[HEAD, MERGE])

    assert (code, [(row.sha, row.match, row.source) for row in load_stored(store)]) == (
        0,
        [(MERGE, "peak_bytes", "#7"), (MERGE, "step_time", "#8")],
    )
    assert capsys.readouterr().out.endswith("2 expected changes found, 2 sent to https://perf.example.com\n")


def test_queries_only_the_newest_commits_of_a_large_push(
    upload_job: Announce, hub: FakeGitHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfci.cli.github.commands.MAX_COMMITS_QUERIED", 3)
    older = [f"{number:040x}" for number in range(1200)]

    upload_job(merged(), commits=older)

    assert capsys.readouterr().out.splitlines()[0] == "of 1,201 pushed commits only the newest 3 are checked"
    requests = [
        request.url.path.split("/")[-2]
        for request in hub.received_requests
        if request.url.path.endswith("/pulls")
    ]
    assert requests == [MERGE, *older[:-3:-1]]


@pytest.mark.parametrize(
    ("proposal", "says"),
    [
        (
            merged(author="mallory"),
            "#7 expects peak_bytes +3.0 % but its author has no write access: skipped\n"
            "dddddddddddd: no expected changes\n",
        ),
        (merged(base=pull()["base"] | {"ref": "release"}), "dddddddddddd: no expected changes\n"),
        (merged(merge_commit_sha=HEAD), "dddddddddddd: no expected changes\n"),
        (merged(merged_at=None), "dddddddddddd: no expected changes\n"),
    ],
    ids=["by a stranger", "into another branch", "another commit", "not merged"],
)
def test_the_job_sends_no_expected_changes_that_do_not_count(
    upload_job: Announce,
    store: Store,
    capsys: pytest.CaptureFixture[str],
    proposal: dict[str, Any],
    says: str,
) -> None:
    assert upload_job(proposal) == 0

    assert (load_stored(store), capsys.readouterr().out) == ([], says)
