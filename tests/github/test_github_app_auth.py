"""Authentication as a GitHub App: JWTs, and installation tokens with few permissions."""

from __future__ import annotations

import logging
import traceback

import pytest
from httpx import Response

from perfci.github.app_auth import PERMISSIONS, AppKey, GitHubApp
from perfci.github.pull_report import CommentAuthor
from perfci.github.requester import GitHubRetryPolicy
from perfci.model import PerfciError
from tests.support.stateful_github import FakeGitHub


@pytest.fixture
def app(hub: FakeGitHub, patience: GitHubRetryPolicy, app_keys: tuple[str, str]) -> GitHubApp:
    pem, hub.public_key = app_keys
    return GitHubApp(AppKey("Iv1.7", pem), hub.description.base_url, retry_policy=patience, transport=hub)


def minted(hub: FakeGitHub) -> int:
    return sum(path.endswith("/access_tokens") for path in hub.writes)


def test_returns_the_author_of_its_comments(app: GitHubApp) -> None:
    assert app.fetch_app_comment_author() == CommentAuthor("perfci[bot]", 7)


def test_rejects_an_app_without_a_slug(
    app: GitHubApp, hub: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "handle_request", lambda request: Response(200, json={"id": 7}))

    with pytest.raises(
        PerfciError, match="GitHub tells no short name of App 7, by which its comments would be known"
    ):
        app.fetch_app_comment_author()


def test_requests_a_token_for_one_repository_with_few_permissions(app: GitHubApp, hub: FakeGitHub) -> None:
    client = app.open_installation_client(44, [1])

    assert client.get_pull("acme/model", 7).number == 7

    assert hub.inside(hub.received_requests[0]) == "/app/installations/44/access_tokens"
    assert hub.tokens["ghs_1"].permissions == dict(PERMISSIONS)


def test_a_token_has_only_the_requested_permissions(app: GitHubApp) -> None:
    client = app.open_installation_client(44, [1], {"metadata": "read"})

    with pytest.raises(PerfciError, match="The token needs the permission checks: write"):
        client.create_check_run("acme/model", {"name": "perfci/x", "head_sha": "a" * 40, "status": "queued"})


def test_rejects_a_token_for_all_repositories(app: GitHubApp, hub: FakeGitHub) -> None:
    with pytest.raises(PerfciError, match="made for named repositories; none was named"):
        app.open_installation_client(44, [])

    assert hub.received_requests == []


def test_reuses_a_token_until_five_minutes_before_it_expires(app: GitHubApp, hub: FakeGitHub) -> None:
    client = app.open_installation_client(44, [1])
    client.get_repository("acme/model")
    hub.now_s += 3600 - 300
    app.open_installation_client(44, [1]).get_repository("acme/model")
    assert minted(hub) == 1

    hub.now_s += 1
    client.get_repository("acme/model")

    assert minted(hub) == 2


def test_caches_tokens_per_installation_repository_and_permissions(app: GitHubApp, hub: FakeGitHub) -> None:
    metadata = {"metadata": "read"}

    for client in (
        app.open_installation_client(44, [1]),
        app.open_installation_client(45, [1]),
        app.open_installation_client(44, [2, 1]),
        app.open_installation_client(44, [1], metadata),
    ):
        client.get_repository("acme/model")
    app.open_installation_client(44, [1, 2]).get_repository("acme/model")

    assert minted(hub) == 4


def test_rejects_an_invalid_key_without_showing_it(hub: FakeGitHub) -> None:
    app = GitHubApp(AppKey("Iv1.7", "-----BEGIN s3cret-----"), hub.description.base_url, transport=hub)

    with pytest.raises(PerfciError, match="The private key of the GitHub App is none; expected") as caught:
        app.fetch_app_comment_author()

    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_hides_key_and_token_in_repr(
    app: GitHubApp, hub: FakeGitHub, app_keys: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = app.open_installation_client(44, [1])

    client.get_pull("acme/model", 7)
    text = (
        caplog.text
        + repr(vars(app))
        + repr(vars(client))
        + repr(app._tokens)
        + repr(AppKey("Iv1.7", app_keys[0]))
    )

    assert "ghs_1" in hub.tokens
    assert "ghs_1" not in text
    assert app_keys[0].splitlines()[1] not in text
