"""An App proves who it is with its key, and asks with tokens as small and short as they can be."""

from __future__ import annotations

import logging
import traceback

import pytest
from httpx import Response
from stateful_github import FakeGitHub

from perfci.github.app_auth import PERMISSIONS, App, Key
from perfci.github.pull_report import Author
from perfci.github.requester import Patience
from perfci.model import PerfciError


@pytest.fixture
def app(hub: FakeGitHub, patience: Patience, app_keys: tuple[str, str]) -> App:
    pem, hub.public_key = app_keys
    return App(Key("Iv1.7", pem), hub.description.base_url, patience=patience, transport=hub)


def minted(hub: FakeGitHub) -> int:
    return sum(path.endswith("/access_tokens") for path in hub.writes)


def test_knows_under_whose_name_it_writes(app: App) -> None:
    assert app.author() == Author("perfci[bot]", 7)


def test_writes_under_no_name_that_github_does_not_tell(
    app: App, hub: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "handle_request", lambda asked: Response(200, json={"id": 7}))

    with pytest.raises(PerfciError, match="GitHub tells no short name of App 7, by which its comments would be known"):
        app.author()


def test_asks_for_a_token_of_one_repository_with_few_permissions(app: App, hub: FakeGitHub) -> None:
    client = app.client(44, [1])

    assert client.pull("acme/model", 7).number == 7

    assert hub.inside(hub.asked[0]) == "/app/installations/44/access_tokens"
    assert hub.tokens["ghs_1"].permissions == dict(PERMISSIONS)


def test_a_token_may_not_do_more_than_it_was_made_for(app: App) -> None:
    client = app.client(44, [1], {"metadata": "read"})

    with pytest.raises(PerfciError, match="The token needs the permission checks: write"):
        client.create_check("acme/model", {"name": "perfci/x", "head_sha": "a" * 40, "status": "queued"})


def test_makes_no_token_for_all_repositories(app: App, hub: FakeGitHub) -> None:
    with pytest.raises(PerfciError, match="made for named repositories; none was named"):
        app.client(44, [])

    assert hub.asked == []


def test_one_token_serves_until_five_minutes_before_its_end(app: App, hub: FakeGitHub) -> None:
    client = app.client(44, [1])
    client.repository("acme/model")
    hub.now_s += 3600 - 300
    app.client(44, [1]).repository("acme/model")
    assert minted(hub) == 1

    hub.now_s += 1
    client.repository("acme/model")

    assert minted(hub) == 2


def test_installations_repositories_and_permissions_share_no_token(app: App, hub: FakeGitHub) -> None:
    metadata = {"metadata": "read"}

    for client in (app.client(44, [1]), app.client(45, [1]), app.client(44, [2, 1]), app.client(44, [1], metadata)):
        client.repository("acme/model")
    app.client(44, [1, 2]).repository("acme/model")

    assert minted(hub) == 4


def test_a_key_that_is_none_is_refused_without_showing_it(hub: FakeGitHub) -> None:
    app = App(Key("Iv1.7", "-----BEGIN s3cret-----"), hub.description.base_url, transport=hub)

    with pytest.raises(PerfciError, match="The private key of the GitHub App is none; expected") as caught:
        app.author()

    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_neither_key_nor_token_shows(
    app: App, hub: FakeGitHub, app_keys: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = app.client(44, [1])

    client.pull("acme/model", 7)
    told = caplog.text + repr(vars(app)) + repr(vars(client)) + repr(app._tokens) + repr(Key("Iv1.7", app_keys[0]))

    assert "ghs_1" in hub.tokens
    assert "ghs_1" not in told
    assert app_keys[0].splitlines()[1] not in told
