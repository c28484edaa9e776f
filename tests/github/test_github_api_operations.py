"""Every operation of the GitHub API is sent once, and checked against GitHub's description."""

from __future__ import annotations

from perfci.github.api_operations import ALL_OPERATIONS
from perfci.github.app_auth import AppKey, GitHubApp
from perfci.github.client import GitHubClient
from perfci.github.requester import DownloadLimits, GitHubRetryPolicy
from tests.support.builders import NOON
from tests.support.stateful_github import BASE, HEAD, STORE, FakeGitHub, Grant

CHECK = {"name": "perfci/H100", "status": "queued"}
STATUS = {"state": "success", "context": "perfci/H100", "description": "unchanged"}


def ask_everything(client: GitHubClient, where: str = "acme/model") -> None:
    client.get_repository(where)
    client.get_user_permission(where, "ada")
    client.get_pull(where, 7)
    list(client.list_open_pulls(where, "acme", "a/branch with spaces?&#"))
    list(client.list_closed_pulls(where))
    list(client.list_pulls_of_commit(where, HEAD))
    comment = client.create_comment(where, 7, "hello")
    list(client.list_comments(where, 7))
    list(client.list_repository_comments(where, NOON))
    client.get_comment(where, comment.id)
    client.create_reaction(where, comment.id, "eyes")
    list(client.list_issue_events(where, 7))
    client.update_comment(where, comment.id, "hello again")
    client.delete_comment(where, comment.id)
    client.create_issue(where, "slower", "by 9 %", ["perfci"])
    client.list_newest_labeled_issues(where, "perfci")
    list(client.list_commit_statuses(where, HEAD))
    client.create_commit_status(where, HEAD, STATUS)
    client.get_workflow_run(where, 4)
    client.list_workflow_run_artifacts(where, 4, "perfci-run")
    list(client.list_completed_workflow_runs(where, "pull_request"))
    client.dispatch_workflow(where, "perf.yml", "main", {"head": HEAD, "base": "", "order": "3-ab"})
    client.list_newest_dispatched_runs(where, "perf.yml")
    client.cancel_workflow_run(where, 4)
    client.find_merge_base(where, BASE, HEAD)
    list(client.list_repository_artifacts(where, "perfci-results"))
    client.download_artifact(where, 5, DownloadLimits(1000))


def ask_as_an_app(app: GitHubApp, where: str = "acme/model") -> None:
    app.fetch_app_comment_author()
    app.find_installation(where)
    client = app.open_installation_client(44, [1])
    check = client.create_check_run(where, CHECK | {"head_sha": HEAD})
    client.update_check_run(where, check.id, CHECK)
    list(client.list_check_runs(where, HEAD, "perfci/H100"))


def test_sends_every_operation_as_github_describes_it_and_no_other(
    client: GitHubClient, hub: FakeGitHub, patience: GitHubRetryPolicy, app_keys: tuple[str, str]
) -> None:
    every = {
        permission.split(": ")[0]: "write"
        for operation in ALL_OPERATIONS
        for permission in operation.permissions
    }
    hub.tokens["t0ken"] = Grant("ada", every)
    pem, hub.public_key = app_keys

    ask_everything(client)
    ask_as_an_app(
        GitHubApp(AppKey("Iv1.7", pem), hub.description.base_url, retry_policy=patience, transport=hub)
    )

    paths = [
        (item.method, item.url.raw_path.decode().partition("?")[0])
        for item in hub.received_requests
        if item.url.host != STORE
    ]
    assert {hub.description.operation(*path) for path in paths} == set(ALL_OPERATIONS)
    assert hub.wrong == []
