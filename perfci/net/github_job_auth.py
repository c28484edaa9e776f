"""How a job of GitHub Actions logs in: GitHub signs what it is, and the server gives it a token for that."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from perfci.net.api_client import API, Refused, refusal
from perfci.net.shapes import Shape
from perfci.net.shapes.github_jobs import JobToken, RunTokenMade

T = TypeVar("T", bound=BaseModel)
Flow = Generator[httpx.Request, httpx.Response, None]

NO_PERMISSION = (
    "The server asks who uploads, and this job cannot say: give it `permissions: id-token: write` (GitHub lets no pull "
    "request of a fork have that), or a token in PERFCI_TOKEN."
)


class Signed(Shape):
    """What GitHub answers."""

    value: str


class JobLogin(httpx.Auth):
    """Log in with the first request, and again once the token is over; a job that may not is told so when asked.

    ``ask_at`` and ``secret`` are where and with what GitHub is asked. Neither is sent to the server, nor its token to
    GitHub.
    """

    requires_response_body = True

    def __init__(self, ask_at: str, secret: str, server: str, project: str) -> None:
        self._ask_at, self._secret, self._server, self._project = ask_at, secret, server.rstrip("/"), project
        self._token = ""

    def auth_flow(self, request: httpx.Request) -> Flow:
        if not self._ask_at:
            answer = yield request
            if answer.status_code == 401:
                raise Refused(NO_PERMISSION, status=401, body=answer.content)
            return
        was_known = bool(self._token)
        if not was_known:
            yield from self._log_in()
        answer = yield self._with_token(request)
        if answer.status_code == 401 and was_known:
            yield from self._log_in()
            yield self._with_token(request)

    def _with_token(self, request: httpx.Request) -> httpx.Request:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request

    def _log_in(self) -> Flow:
        """Each token of GitHub counts once, so each try begins with a new one."""
        self._token = ""
        where = httpx.URL(self._ask_at).copy_merge_params({"audience": self._server})
        answer = yield httpx.Request("GET", where, headers={"Authorization": f"Bearer {self._secret}"})
        signed = _read(Signed, "GitHub", answer).value
        asked = JobToken(project=self._project, token=signed).model_dump()
        answer = yield httpx.Request("POST", f"{self._server}{API}/oidc/token", json=asked)
        self._token = _read(RunTokenMade, self._server, answer).text


def _read(shape: type[T], who: str, answer: httpx.Response) -> T:
    if not answer.is_success:
        raise _refused(refusal(who, answer))
    try:
        return shape.model_validate_json(answer.content)
    except ValidationError as error:
        raise Refused(f"{who} gave this job no token, but something else.", status=401, body=b"") from error


def _refused(error: Refused) -> Refused:
    """A login that fails says nothing against a document: another try, or another token, may send it."""
    if not error.passing:
        error.status = 401
    return error
