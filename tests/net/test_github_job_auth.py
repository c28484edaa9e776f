"""A GitHub Actions job logs in with its OIDC token, and learns what it lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from perfci.net.api_client import ApiClient, ApiError
from perfci.net.github_job_auth import MISSING_ID_TOKEN_PERMISSION, GitHubJobAuth
from perfci.net.http_client import open_http_client
from perfci.net.spool_sender import FlushRetryPolicy, flush_spool
from perfci.net.upload_spool import Spool

SERVER, GITHUB = "https://perf.example.com", "https://pipelines.example/idtoken?api-version=2.0"
KEY = "a" * 64


class Both:
    """GitHub and the server behind one line; ``broken`` answers in the place of an address."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.broken: dict[str, httpx.Response] = {}
        self.over: set[str] = set()
        self._numbers: Iterator[int] = count(1)

    def client(self, ask_at: str = GITHUB) -> ApiClient:
        login = GitHubJobAuth(ask_at, "secret", SERVER, "acme/model")
        return ApiClient(open_http_client(SERVER, auth=login, transport=httpx.MockTransport(self._handle)))

    def _handle(self, request: httpx.Request) -> httpx.Response:
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked.append((f"{request.url.host}{request.url.path}", bearer))
        if (result := self.broken.get(request.url.path)) is not None:
            return result
        if request.url.path == "/idtoken":
            assert dict(request.url.params) == {"api-version": "2.0", "audience": SERVER}
            return httpx.Response(200, json={"value": f"signed.{next(self._numbers)}.mark", "count": 1})
        if request.url.path == "/api/v1/oidc/token":
            number = json.loads(request.content)["token"].split(".")[1]
            made = {
                "secret": f"pfcir_{number}",
                "expires_at": "2026-03-01T12:15:00Z",
                "may_write_history": True,
            }
            return httpx.Response(201, json=made)
        if not bearer or bearer in self.over:
            return httpx.Response(401, json=problem(401, "Nobody we know."))
        receipt = {"key": KEY, "project": "acme/model", "stored": True, "results": 1, "samples": 1}
        return httpx.Response(201, json=receipt)


def problem(status: int, detail: str) -> dict[str, Any]:
    return {"type": "about:blank", "title": "No", "status": status, "detail": detail, "instance": "request-1"}


@pytest.fixture
def both() -> Both:
    return Both()


def test_logs_in_with_the_first_request_and_sends_each_side_only_its_own_secret(both: Both) -> None:
    client = both.client()

    for _ in range(2):
        client.upload_run(b"", KEY)

    assert both.asked == [
        ("pipelines.example/idtoken", "secret"),
        ("perf.example.com/api/v1/oidc/token", ""),
        ("perf.example.com/api/v1/runs", "pfcir_1"),
        ("perf.example.com/api/v1/runs", "pfcir_1"),
    ]


def test_logs_in_again_after_its_token_expired(both: Both) -> None:
    client = both.client()
    client.upload_run(b"", KEY)
    both.over.add("pfcir_1")

    client.upload_run(b"", KEY)

    assert [bearer for path, bearer in both.asked if path.endswith("/runs")] == [
        "pfcir_1",
        "pfcir_1",
        "pfcir_2",
    ]


def test_names_the_missing_permission_on_a_401(both: Both) -> None:
    with pytest.raises(ApiError) as refused:
        both.client(ask_at="").upload_run(b"", KEY)

    assert (str(refused.value), refused.value.status) == (MISSING_ID_TOKEN_PERMISSION, 401)


@pytest.mark.parametrize(
    ("path", "answer", "sentence"),
    [
        ("/idtoken", httpx.Response(403), "GitHub answers 403: Forbidden"),
        ("/idtoken", httpx.Response(200, json={}), "GitHub returned an unexpected token response."),
        (
            "/api/v1/oidc/token",
            httpx.Response(409, json=problem(409, "Set [server] public_url.")),
            f"{SERVER} answers 409: Set [server] public_url.",
        ),
    ],
)
def test_keeps_documents_in_the_spool_if_login_fails(
    both: Both, tmp_path: Path, path: str, answer: httpx.Response, sentence: str
) -> None:
    spool = Spool(tmp_path)
    spool.add_document(b"{}", KEY, SERVER)
    both.broken[path] = answer

    flushed = flush_spool(spool, both.client(), FlushRetryPolicy(give_up_after_s=0))

    assert (flushed.messages, flushed.waiting, flushed.rejected) == ([sentence], 1, [])


def test_retries_if_github_is_busy(both: Both, tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.add_document(b"{}", KEY, SERVER)
    both.broken["/idtoken"] = httpx.Response(503)

    flushed = flush_spool(spool, both.client(), FlushRetryPolicy(sleep=lambda _: both.broken.clear()))

    assert (len(flushed.sent), flushed.waiting) == (1, 0)
