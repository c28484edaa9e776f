"""The typed client of the API: one method for each operation, in the same shapes as the server's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from perfci.model import PerfciError
from perfci.net.shapes.problem import Problem
from perfci.net.shapes.runs import NewProject, ProjectPage, ProjectShape, Receipt, Visibility
from perfci.net.slugs import segment

T = TypeVar("T", bound=BaseModel)

API = "/api/v1"


class Unreachable(PerfciError):
    """No answer came: nobody knows whether the request arrived."""


class Refused(PerfciError):
    """The server answered, and not with what was asked for."""

    def __init__(self, sentence: str, *, status: int, body: bytes, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.status, self.body, self.retry_after_s = status, body, retry_after_s

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == 429 or self.status >= 500


class Client:
    """Asks one server; ``door`` knows its address and the token."""

    def __init__(self, door: httpx.Client) -> None:
        self._door = door

    @property
    def server(self) -> str:
        return str(self._door.base_url).rstrip("/")

    def upload(self, packed: bytes, key: str) -> Receipt:
        """Send a gzip run document; the same one twice is one run."""
        about = {"Content-Type": "application/json", "Content-Encoding": "gzip", "Idempotency-Key": key}
        return self._asked(Receipt, "POST", "/runs", content=packed, headers=about)

    def projects(self) -> ProjectPage:
        return self._asked(ProjectPage, "GET", "/projects")

    def project(self, project: str) -> ProjectShape:
        return self._asked(ProjectShape, "GET", _of(project))

    def create_project(self, project: str, visibility: Visibility = "private") -> ProjectShape:
        asked = NewProject(project=project, visibility=visibility)
        return self._asked(ProjectShape, "POST", "/projects", json=asked.model_dump())

    def _asked(self, shape: type[T], method: str, path: str, **more: Any) -> T:
        answer = self._answer(method, path, **more)
        try:
            return shape.model_validate_json(answer.content)
        except ValidationError as error:
            raise Refused(
                f"{self.server} answered something else than perfci does: is this its address?",
                status=502, body=answer.content[:1000],
            ) from error  # fmt: skip

    def _answer(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = self._door.request(method, API + path, **more)
        except httpx.HTTPError as error:
            raise Unreachable(f"{self.server} does not answer: {str(error) or type(error).__name__}.") from error
        if not answer.is_success:
            raise _refusal(self.server, answer)
        return answer


def _of(project: str) -> str:
    return f"/projects/{segment(project)}"


def _refusal(server: str, answer: httpx.Response) -> Refused:
    try:
        detail = Problem.model_validate_json(answer.content).detail
    except ValidationError:
        detail = f"{answer.reason_phrase or 'no reason given'}"
    return Refused(
        f"{server} answers {answer.status_code}: {detail}",
        status=answer.status_code,
        body=answer.content,
        retry_after_s=_seconds(answer.headers),
    )


def _seconds(headers: Mapping[str, str]) -> float | None:
    """``Retry-After`` in seconds; a date in it is rarer than a wrong clock, and is left aside."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
