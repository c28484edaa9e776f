"""The GitHub of the tests at an address, for those who ask it from another process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from werkzeug.wrappers import Request, Response

from tests.support.github_openapi import described
from tests.support.loopback_application import served_on_loopback
from tests.support.npm_packages import skip_without_npm
from tests.support.stateful_github import STORE, FakeGitHub

FILES = f"https://{STORE}"


@pytest.fixture
def hub() -> Iterator[FakeGitHub]:
    """A GitHub that knows no token yet; at the end it tells what was asked in another way than it
    describes.
    """
    hub = FakeGitHub(skip_without_npm(lambda: described("api.github.com")), tokens={})
    yield hub
    assert hub.wrong == []


@contextmanager
def on_loopback(hub: FakeGitHub) -> Iterator[str]:
    """Requests are held against GitHub's description as everywhere, so they arrive as if sent to GitHub's
    addresses.
    """

    @Request.application
    def answer(sent: Request) -> Response:
        hub.now_s = time.time()  # that of who asks: a token is signed for minutes
        headers = {name: value for name, value in sent.headers if name != "Host"}
        host = FILES if sent.path.startswith("/signed/") else hub.description.base_url
        url = f"{host}{sent.full_path.removesuffix('?')}"
        result = hub.handle_request(httpx.Request(sent.method, url, headers=headers, content=sent.get_data()))
        answer = Response(result.read(), result.status_code, content_type=result.headers.get("Content-Type"))
        if "Location" in result.headers:
            answer.headers["Location"] = result.headers["Location"].replace(FILES, sent.host_url.rstrip("/"))
        return answer

    with served_on_loopback(answer) as url:
        yield url
