"""Public keys of an issuer: fetched hourly, cached for a day, at most once a minute."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest

from perfci.net.jwks import MAX_BYTES, IssuerKeys, IssuerUnavailable
from tests.support.signed_job_tokens import ISSUER, KID, jwks, published
from tests.support.waiting import WITHIN_S


class Line:
    """The way to an issuer: what it answers, how often it was asked, and what time it is."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.asked: list[str] = []
        self.answer: Callable[[], httpx.Response] = lambda: httpx.Response(200, json=jwks())
        self.keys = IssuerKeys(ISSUER, httpx.MockTransport(self._handle), lambda: self.now_s)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        made = self.answer()
        return httpx.Response(made.status_code, headers=made.headers, stream=made.stream)  # not yet read

    def later(self, **span: float) -> None:
        self.now_s += timedelta(**span).total_seconds()

    def publishes(self, *keys: dict[str, Any]) -> None:
        self.answer = lambda: httpx.Response(200, json=jwks(*keys))

    def breaks(self) -> None:
        self.answer = lambda: httpx.Response(502)


@pytest.fixture
def line() -> Line:
    return Line()


def test_fetches_keys_from_the_configured_address_and_caches_them(line: Line) -> None:
    keys = [line.keys.get_key(KID) for _ in range(3)]

    assert keys == [published()] * 3
    assert line.asked == [f"{ISSUER}/.well-known/jwks"]


def test_fetches_again_after_an_hour(line: Line) -> None:
    line.keys.get_key(KID)
    line.publishes(published("new"))

    line.later(minutes=59)
    before = line.keys.get_key(KID)
    line.later(minutes=1)

    assert (before, line.keys.get_key(KID), line.keys.get_key("new")) == (published(), None, published("new"))
    assert len(line.asked) == 2


def test_fetches_for_unknown_ids_once_a_minute(line: Line) -> None:
    line.keys.get_key(KID)
    line.publishes(published(), published("rotated"))

    results = []
    for seconds in (1, 58, 1):
        line.later(seconds=seconds)
        results += [line.keys.get_key("rotated"), line.keys.get_key("made up")]

    assert [result is None for result in results] == [True, True, True, True, False, True]
    assert len(line.asked) == 2


def test_uses_cached_keys_for_a_day_if_the_issuer_is_down(line: Line) -> None:
    line.keys.get_key(KID)
    line.breaks()

    line.later(hours=23, minutes=59)
    assert line.keys.get_key(KID) == published()

    line.later(minutes=1)
    with pytest.raises(IssuerUnavailable, match="does not tell its keys at this moment"):
        line.keys.get_key(KID)


def test_fetches_at_most_once_a_minute_if_the_issuer_is_down(line: Line) -> None:
    line.keys.get_key(KID)
    line.breaks()
    line.later(hours=2)

    for _ in range(5):
        line.keys.get_key(KID)

    assert len(line.asked) == 2


def test_has_no_keys_before_the_first_answer(line: Line) -> None:
    line.breaks()
    for _ in range(3):
        with pytest.raises(IssuerUnavailable):
            line.keys.get_key(KID)

    line.publishes(published())
    line.later(seconds=5)

    assert (line.keys.get_key(KID), len(line.asked)) == (published(), 2)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(302, headers={"Location": "https://evil.example/keys"}),
        httpx.Response(200, content=b"<html>"),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(200, json=[published()]),
        httpx.Response(200, json={"keys": {"kid": KID}}),
        httpx.Response(200, json={"keys": ["key", {"kid": 1}, {}]}),
        httpx.Response(200, json={"keys": [published()], "more": "x" * MAX_BYTES}),
        httpx.Response(200, content=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}),
        httpx.Response(200, json={"keys": []}),
    ],
    ids=["elsewhere", "page", "deep", "list", "no list", "no keys", "too long", "packed", "none"],
)
def test_rejects_a_response_that_is_no_key_set(line: Line, answer: httpx.Response) -> None:
    line.keys.get_key(KID)
    line.answer = lambda: answer
    line.later(hours=1)

    assert line.keys.get_key(KID) == published()


def test_nobody_waits_while_another_request_asks_an_issuer_that_hangs(line: Line) -> None:
    answering, hanging = threading.Event(), threading.Event()

    def hang() -> httpx.Response:
        hanging.set()
        assert answering.wait(WITHIN_S)
        return httpx.Response(200, json=jwks())

    line.answer = hang
    first = threading.Thread(target=line.keys.get_key, args=(KID,))
    first.start()
    assert hanging.wait(WITHIN_S)

    for _ in range(12):
        with pytest.raises(IssuerUnavailable):
            line.keys.get_key(KID)
    answering.set()
    first.join()

    assert (len(line.asked), line.keys.get_key(KID)) == (1, published())


def test_known_keys_are_used_while_a_rotated_one_is_asked_for(line: Line) -> None:
    line.keys.get_key(KID)
    line.later(minutes=2)
    during: list[object] = []

    def answer_in_time() -> httpx.Response:
        during.append(line.keys.get_key(KID))
        with pytest.raises(IssuerUnavailable):
            line.keys.get_key("rotated")
        return httpx.Response(200, json=jwks(published(), published("rotated")))

    line.answer = answer_in_time

    assert line.keys.get_key("rotated") == published("rotated")
    assert (during, len(line.asked)) == ([published()], 2)


def test_remembers_a_try_that_failed_from_its_end(line: Line) -> None:
    def time_out() -> httpx.Response:
        line.later(seconds=5)
        raise httpx.ReadTimeout("no answer")

    line.answer = time_out
    for _ in range(3):
        with pytest.raises(IssuerUnavailable):
            line.keys.get_key(KID)

    assert len(line.asked) == 1
