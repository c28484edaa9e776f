"""Webhook events of GitHub are parsed or ignored; unsigned ones are rejected."""

from __future__ import annotations

import hashlib
import hmac
import json
from functools import cache
from typing import Any

import pytest

from perfci.github.client import GitHubClient
from perfci.github.pull_report import ReportOutdated
from perfci.github.pulls_of_workflow_run import find_open_pulls_of_run
from perfci.github.webhook_events import (
    EVENT_TYPES,
    CheckRunEvent,
    CheckSuiteEvent,
    InstallationEvent,
    IssueCommentEvent,
    PingEvent,
    PullRequestEvent,
    PushEvent,
    WebhookEvent,
    WorkflowRunEvent,
    has_valid_signature,
    parse_webhook_event,
)
from perfci.model import PerfciError
from tests.support.npm_packages import EXAMPLES, content, skip_without_npm
from tests.support.stateful_github import HEAD, FakeGitHub, pull

HERE = {"id": 1, "full_name": "acme/model"}
FORK = {"id": 2, "full_name": "fork2/model"}
ADA = {"id": 3, "login": "ada"}


@cache
def examples() -> dict[str, list[dict[str, Any]]]:
    document = json.loads(content(EXAMPLES, "api.github.com/index.json"))
    return {kind["name"]: kind["examples"] for kind in document}


def read(kind: str, **sent: Any) -> WebhookEvent | None:
    return parse_webhook_event(kind, json.dumps(sent).encode())


def test_accepts_or_ignores_every_event_of_github() -> None:
    kinds = skip_without_npm(examples)

    fields = {kind: {type(read(kind, **sent_item)) for sent_item in sent} for kind, sent in kinds.items()}

    assert len(kinds) == 58
    assert sum(map(len, kinds.values())) == 329
    assert fields == {kind: {EVENT_TYPES.get(kind, type(None))} for kind in kinds}


def test_reads_the_used_fields_of_events() -> None:
    sent = skip_without_npm(examples)

    pulled = next(
        read("pull_request", **item) for item in sent["pull_request"] if item["action"] == "synchronize"
    )
    labelled = next(
        read("pull_request", **item) for item in sent["pull_request"] if item["action"] == "labeled"
    )
    again = next(
        read("check_suite", **item) for item in sent["check_suite"] if item["action"] == "rerequested"
    )
    pressed = next(
        read("check_run", **item) for item in sent["check_run"] if item["action"] == "requested_action"
    )
    ran = next(read("workflow_run", **item) for item in sent["workflow_run"] if item["action"] == "completed")

    assert isinstance(pulled, PullRequestEvent)
    assert pulled.pull_request.head.sha == "ec26c3e57ca3a959ca5aad62de7213c562f8c821"
    assert pulled.pull_request.head.repo == pulled.pull_request.base.repo
    assert isinstance(labelled, PullRequestEvent)
    assert labelled.label is not None
    assert isinstance(again, CheckSuiteEvent)
    assert (len(again.check_suite.head_sha), again.check_suite.app.id > 0) == (40, True)
    assert isinstance(pressed, CheckRunEvent)
    assert pressed.action == "requested_action"
    assert isinstance(ran, WorkflowRunEvent)
    assert ran.workflow_run.head_repository is not None


def test_reads_a_pull_request_from_a_fork() -> None:
    result = read(
        "pull_request",
        action="opened",
        number=7,
        pull_request=pull(repository=2),
        repository=HERE,
        sender=ADA,
        installation={"id": 44, "node_id": "x"},
        unheard_of={"of": 1},
    )

    assert isinstance(result, PullRequestEvent)
    assert result.pull_request.head.repo is not None
    assert (result.pull_request.head.repo.id, result.repository.id) == (2, 1)
    assert result.installation is not None
    assert result.installation.id == 44


def test_reads_a_pull_request_whose_fork_is_gone() -> None:
    sent = pull(repository=2)
    sent["head"]["repo"] = None

    result = read("pull_request", action="closed", number=7, pull_request=sent, repository=HERE, sender=ADA)

    assert isinstance(result, PullRequestEvent)
    assert (result.pull_request.head.repo, result.pull_request.head.sha) == (None, HEAD)


def test_distinguishes_comments_on_pull_requests_and_issues() -> None:
    comment = {"id": 5, "body": "@perfci acknowledge", "user": ADA, "html_url": "https://github.com/x"}
    common = {"action": "created", "comment": comment, "repository": HERE, "sender": ADA}

    on_pull = read(
        "issue_comment", issue={"number": 7, "pull_request": {"url": "https://api.github.com/x"}}, **common
    )
    on_issue = read("issue_comment", issue={"number": 8}, **common)

    assert isinstance(on_pull, IssueCommentEvent)
    assert isinstance(on_issue, IssueCommentEvent)
    assert (on_pull.issue.pull_request is not None, on_issue.issue.pull_request) == (True, None)
    assert on_pull.comment.body == "@perfci acknowledge"


def test_reads_push_installation_and_ping_events() -> None:
    pushed = read(
        "push", ref="refs/heads/main", before="0" * 40, after=HEAD, repository=HERE, commits=[{"id": "x"}]
    )
    installed = read(
        "installation",
        action="created",
        installation={"id": 44, "account": ADA},
        repositories=[HERE],
        sender=ADA,
    )
    pinged = read("ping", zen="Keep it logically awesome.", hook_id=9)

    assert isinstance(pushed, PushEvent)
    assert (pushed.ref, pushed.after, pushed.deleted) == ("refs/heads/main", HEAD, False)
    assert [commit.id for commit in pushed.commits] == ["x"]
    assert isinstance(installed, InstallationEvent)
    assert [repository.full_name for repository in installed.repositories] == ["acme/model"]
    assert pinged == PingEvent("Keep it logically awesome.", 9)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"payload=%7B%7D", "the whole: Invalid JSON: expected value at line 1 column 1"),
        (b'{"zen": "x"}', "hook_id: Field required"),
        (b'{"zen": "\\ud800", "hook_id": 1}', "the whole: Invalid JSON"),
        (
            b'{"zen": "x", "hook_id": 1, "deep": ' + b"[" * 100_000,
            "the whole: Invalid JSON: recursion limit exceeded",
        ),
        (b'{"zen": "x", "hook_id": 1e999}', "hook_id: Input should be"),
        (b"\xff", "the whole: Invalid JSON"),
    ],
)
def test_names_a_missing_field_of_an_event(body: bytes, why: str) -> None:
    with pytest.raises(PerfciError) as caught:
        parse_webhook_event("ping", body)

    assert str(caught.value).startswith(f"This ping event is not as GitHub sends them ({why}")
    assert str(caught.value).endswith("The webhook's content type has to be application/json.")


def test_ignores_unused_event_kinds() -> None:
    assert parse_webhook_event("star", b"no JSON at all") is None


def signed(body: bytes, secret: str) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def test_accepts_githubs_example_signature() -> None:
    """From https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries"""
    header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

    assert has_valid_signature(b"Hello, World!", header, ["It's a Secret to Everybody"])


def test_accepts_two_secrets_during_rotation() -> None:
    both = ["new", "old"]

    assert [
        has_valid_signature(b"{}", signed(b"{}", secret), both) for secret in ("new", "old", "older")
    ] == [True, True, False]


@pytest.mark.parametrize(
    "header",
    [
        "",
        "sha256=",
        "sha256=é",
        "sha1=" + "0" * 40,
        signed(b"{} ", "s"),
        signed(b"{}", "s").upper(),
        signed(b"{}", ""),
    ],
)
def test_rejects_other_signatures(header: str) -> None:
    assert not has_valid_signature(b"{}", header, ["s", ""])


def test_rejects_everything_without_a_secret() -> None:
    assert not has_valid_signature(b"{}", signed(b"{}", ""), ["", ""])
    assert not has_valid_signature(b"{}", signed(b"{}", ""), [])


def test_finds_the_pull_request_of_a_run_by_repository_id(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.pulls = [pull(6, branch="other"), pull(7), pull(8, repository=3)]

    pulls = find_open_pulls_of_run(client, client.get_workflow_run("acme/model", 4))

    assert [each_pull.number for each_pull in pulls] == [7]


def test_distinguishes_equal_branch_names_in_forks_of_one_owner(
    client: GitHubClient, hub: FakeGitHub
) -> None:
    run = {"id": 4, "event": "pull_request", "head_sha": HEAD, "head_branch": "faster", "repository": HERE}
    hub.pulls = [pull(7, repository=2), pull(8, repository=2)]
    hub.pulls[0]["head"]["repo"] = {"id": 99, "full_name": "fork2/model-of-old"}
    result = read(
        "workflow_run", action="completed", repository=HERE, workflow_run=run | {"head_repository": FORK}
    )
    assert isinstance(result, WorkflowRunEvent)

    assert [each_pull.number for each_pull in find_open_pulls_of_run(client, result.workflow_run)] == [8]


def test_a_run_of_an_older_commit_has_no_report(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.pulls = [pull(7, head="d" * 40)]

    with pytest.raises(ReportOutdated) as caught:
        find_open_pulls_of_run(client, client.get_workflow_run("acme/model", 4))

    assert str(caught.value) == (
        "acme/model#7 is at dddddddddddd by now and workflow run 4 measured aaaaaaaaaaaa: its "
        "result is not shown."
    )


def test_a_run_without_an_open_pull_request_has_no_report(client: GitHubClient, hub: FakeGitHub) -> None:
    hub.pulls[0]["state"] = "closed"

    with pytest.raises(ReportOutdated, match="No open pull request of acme/model comes from acme:faster"):
        find_open_pulls_of_run(client, client.get_workflow_run("acme/model", 4))


def test_a_run_of_a_fork_that_is_gone_has_no_report(client: GitHubClient, hub: FakeGitHub) -> None:
    run = {"id": 4, "event": "pull_request", "head_sha": HEAD, "head_branch": "faster", "repository": HERE}
    result = read(
        "workflow_run", action="completed", repository=HERE, workflow_run=run | {"head_repository": None}
    )
    assert isinstance(result, WorkflowRunEvent)

    with pytest.raises(ReportOutdated, match="Workflow run 4 of acme/model came from a fork that is gone"):
        find_open_pulls_of_run(client, result.workflow_run)
