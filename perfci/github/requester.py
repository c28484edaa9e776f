"""One request of GitHub's API at a time: with the token, within the limits, again where that harms nobody."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from perfci.github.downloads import Limits, download
from perfci.github.errors import Refused, Unanswered, Unreachable, refusal
from perfci.github.operations import Operation
from perfci.model import PerfciError

T = TypeVar("T")
Where = Mapping[str, str | int]

API_VERSION = "2022-11-28"
PER_PAGE = 100
MOST_PAGES = 30
"""GitHub names no more than 3000 files, and takes no more than 2500 comments."""

NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long one request is tried, and what time is."""

    attempts: int = 5
    longest_wait_s: float = 120.0
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    dice: Callable[[], float] = random.random

    def backoff_s(self, attempt: int) -> float:
        """One second, two, four ..., half of it by chance: jobs that failed together do not come back together."""
        return float(2**attempt) * (0.5 + self.dice() / 2)


class Caller:
    """``door`` knows the address and no token: that is added to requests of the API and of nothing else."""

    def __init__(self, door: httpx.Client, token: Callable[[], str], patience: Patience | None = None) -> None:
        self._door = door
        self._token = token
        self.patience = patience or Patience()

    @property
    def server(self) -> str:
        return str(self._door.base_url).rstrip("/")

    def answer(
        self, operation: Operation, where: Where, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> httpx.Response:
        return self._answer(operation, where, operation.url(where), query, body)

    def pages(self, operation: Operation, where: Where, query: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """Every page of a list, as GitHub links them."""
        url, asked = operation.url(where), {"per_page": PER_PAGE} | dict(query or {})
        for _ in range(MOST_PAGES):
            found = self._answer(operation, where, url, asked, None)
            yield found.content
            if "next" not in found.links:
                return
            url, asked = self._within(found.links["next"]["url"]), {}
        raise PerfciError(f"GitHub has more than {MOST_PAGES * PER_PAGE} entries where perfci was to "
                          f"{operation.aim_at(where)}; so many are not read.")  # fmt: skip

    def file(self, operation: Operation, where: Where, what: str, limits: Limits) -> bytes:
        """A file that GitHub keeps elsewhere: the one redirect that is followed, without the token."""
        request = self._request(operation, operation.url(where))

        def once() -> bytes:
            found = self._sent(operation, where, request)
            if found.status_code != 302:
                raise refusal(operation, where, found, self.patience.now())
            return download(self._door, found.headers.get("location", ""), what, limits, self.patience.now)

        return self._patiently(operation, once)

    def _answer(
        self, operation: Operation, where: Where, url: str, query: Mapping[str, Any] | None, body: Any
    ) -> httpx.Response:
        request = self._request(operation, url, query, body)

        def once() -> httpx.Response:
            found = self._sent(operation, where, request)
            if not found.is_success:
                raise refusal(operation, where, found, self.patience.now())
            return found

        return self._patiently(operation, once)

    def _request(
        self, operation: Operation, url: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> httpx.Request:
        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": API_VERSION,
            "Authorization": f"Bearer {_usable(self._token())}",
        }
        return self._door.build_request(operation.method, url, params=query or None, json=body, headers=headers)

    def _sent(self, operation: Operation, where: Where, request: httpx.Request) -> httpx.Response:
        try:
            return self._door.send(request)
        except NEVER_SENT as error:
            raise Unreachable(f"{request.url.host} could not be reached to {operation.aim_at(where)}: "
                              f"{_why(error)}. Nothing was done there.") from error  # fmt: skip
        except httpx.HTTPError as error:
            raise Unanswered(f"{request.url.host} was to {operation.aim_at(where)} and did not answer: {_why(error)}. "
                             "It may be done or not; asking again finds out.") from error  # fmt: skip

    def _patiently(self, operation: Operation, once: Callable[[], T]) -> T:
        waited_s = 0.0
        for attempt in range(self.patience.attempts - 1):
            try:
                return once()
            except (Refused, Unreachable, Unanswered) as error:
                pause_s = self._pause(operation, error, attempt)
                if pause_s is None or waited_s + pause_s > self.patience.longest_wait_s:
                    raise
            self.patience.sleep(pause_s)
            waited_s += pause_s
        return once()

    def _pause(self, operation: Operation, error: PerfciError, attempt: int) -> float | None:
        """How long before the next attempt; none where there must not be one.

        A request over a limit was not carried out, so that it may be sent again whatever it is.
        """
        if isinstance(error, Refused) and error.limited:
            return error.after_s
        again = isinstance(error, Unreachable) or (
            operation.repeatable and (isinstance(error, Unanswered) or (isinstance(error, Refused) and error.passing))
        )
        if not again:
            return None
        told = error.after_s if isinstance(error, Refused) else None
        return max(told or 0.0, self.patience.backoff_s(attempt))

    def _within(self, url: str) -> str:
        """A link to the next page goes to the same API: the token must not reach another host."""
        base, target = self._door.base_url, httpx.URL(url)
        if (target.scheme, target.host, target.port) != (base.scheme, base.host, base.port) or not (
            target.path.startswith(base.path)
        ):
            raise PerfciError(f"{base.host} links its next page at {target.host}, where the token must not go. "
                              "Give the address that it calls its own.")  # fmt: skip
        return url


def _usable(token: str) -> str:
    """A header that cannot be sent would be shown by whoever refuses to send it."""
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise PerfciError("The token for GitHub is empty or holds a character that no token has: a blank, a line's end "
                          "or a letter with an accent. Give it as GitHub showed it.")  # fmt: skip
    return token


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
