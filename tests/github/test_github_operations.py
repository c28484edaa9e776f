"""Everything that perfci ever asks of GitHub is asked here once, and held against GitHub's description."""

from __future__ import annotations

from builders import NOON
from stateful_github import HEAD, STORE, FakeGitHub, Grant

from perfci.github.app_auth import App, Key
from perfci.github.client import Client
from perfci.github.downloads import Limits
from perfci.github.operations import ALL
from perfci.github.requester import Patience

CHECK = {"name": "perfci/H100", "status": "queued"}
STATUS = {"state": "success", "context": "perfci/H100", "description": "unchanged"}


def ask_everything(client: Client, where: str = "acme/model") -> None:
    client.repository(where)
    client.permission(where, "ada")
    client.pull(where, 7)
    list(client.open_pulls(where, "acme", "a/branch with spaces?&#"))
    list(client.closed_pulls(where))
    list(client.pulls_of_commit(where, HEAD))
    comment = client.create_comment(where, 7, "hello")
    list(client.comments(where, 7))
    list(client.talk_since(where, NOON))
    client.update_comment(where, comment.id, "hello again")
    client.delete_comment(where, comment.id)
    client.create_issue(where, "slower", "by 9 %", ["perfci"])
    client.newest_issues(where, "perfci")
    list(client.statuses(where, HEAD))
    client.create_status(where, HEAD, STATUS)
    client.workflow_run(where, 4)
    client.artifacts(where, 4, "perfci-run")
    list(client.ended_runs(where, "pull_request"))
    list(client.newest_artifacts(where, "perfci-results"))
    client.download(where, 5, Limits(1000))


def ask_as_an_app(app: App, where: str = "acme/model") -> None:
    app.author()
    app.installation(where)
    client = app.client(44, [1])
    check = client.create_check(where, CHECK | {"head_sha": HEAD})
    client.update_check(where, check.id, CHECK)
    list(client.checks(where, HEAD, "perfci/H100"))


def test_asks_all_of_its_operations_as_github_describes_them_and_nothing_else(
    client: Client, hub: FakeGitHub, patience: Patience, app_keys: tuple[str, str]
) -> None:
    every = {one.split(": ")[0]: "write" for operation in ALL for one in operation.needs}
    hub.tokens["t0ken"] = Grant("ada", every)
    pem, hub.public_key = app_keys

    ask_everything(client)
    ask_as_an_app(App(Key("Iv1.7", pem), hub.description.base_url, patience=patience, transport=hub))

    paths = [(one.method, one.url.raw_path.decode().partition("?")[0]) for one in hub.asked if one.url.host != STORE]
    assert {hub.description.operation(*one) for one in paths} == set(ALL)
    assert hub.wrong == []
