"""Log in from a GitHub Actions job: exchange its OIDC token for an API token."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from perfci.net.api_client import API_PREFIX, ApiError, build_api_error
from perfci.net.api_schemas import Shape
from perfci.net.api_schemas.projects_and_access import CreatedJobToken, IdTokenExchange
from perfci.net.http_client import open_http_client

T = TypeVar("T", bound=BaseModel)
AuthFlow = Generator[httpx.Request, httpx.Response, None]

MISSING_ID_TOKEN_PERMISSION = (
    "The server requires a login and this job cannot request an ID token: give it "
    "`permissions: id-token: write` (GitHub lets no pull request of a fork have that), or a token in "
    "PERFCI_TOKEN."
)


class IdTokenResponse(Shape):
    """GitHub's response to a request for an OIDC token."""

    value: str


class GitHubJobAuth(httpx.Auth):
    """Log in with the first request, and again once the token is over; a job that may not gets an error when
    asked.

    ``token_url`` and ``request_token`` are where and with what GitHub is asked. Neither is sent to the
    server, nor its token to GitHub.
    https://docs.github.com/actions/reference/security/oidc
    """

    requires_response_body = True

    def __init__(self, token_url: str, request_token: str, server: str, project: str) -> None:
        self._token_url, self._request_token, self._server, self._project = (
            token_url,
            request_token,
            server.rstrip("/"),
            project,
        )
        self._token = ""

    def auth_flow(self, request: httpx.Request) -> AuthFlow:
        if not self._token_url:
            answer = yield request
            if answer.status_code == 401:
                raise ApiError(MISSING_ID_TOKEN_PERMISSION, status=401, body=answer.content)
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

    def _log_in(self) -> AuthFlow:
        """Each token of GitHub counts once, so each try begins with a new one."""
        self._token = ""
        answer = yield _build_id_token_request(self._token_url, self._request_token, self._server)
        signed = _parse_response(IdTokenResponse, "GitHub", answer).value
        exchange = IdTokenExchange(project=self._project, token=signed).model_dump()
        answer = yield httpx.Request("POST", f"{self._server}{API_PREFIX}/oidc/token", json=exchange)
        self._token = _parse_response(CreatedJobToken, self._server, answer).secret


def fetch_id_token(token_url: str, request_token: str, server: str) -> str:
    """Ask GitHub to sign for a server what this job is."""
    request = _build_id_token_request(token_url, request_token, server.rstrip("/"))
    with closing(open_http_client(token_url)) as client:
        return _parse_response(IdTokenResponse, "GitHub", client.send(request)).value


def _build_id_token_request(token_url: str, request_token: str, server: str) -> httpx.Request:
    where = httpx.URL(token_url).copy_merge_params({"audience": server})
    return httpx.Request("GET", where, headers={"Authorization": f"Bearer {request_token}"})


def _parse_response(response_type: type[T], sender: str, response: httpx.Response) -> T:
    if not response.is_success:
        error = build_api_error(sender, response)
        if not error.is_transient:
            # A login that fails says nothing against a document: another token may send it, so keep it.
            error.status = 401
        raise error
    try:
        return response_type.model_validate_json(response.content)
    except ValidationError as invalid:
        raise ApiError(f"{sender} returned an unexpected token response.", status=401, body=b"") from invalid
