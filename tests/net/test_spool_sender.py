from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from perfci.net.api_client import ApiClient
from perfci.net.api_schemas.runs import UploadReceipt
from perfci.net.http_client import open_http_client
from perfci.net.spool_sender import FlushRetryPolicy, flush_spool
from perfci.net.upload_spool import Spool

SERVER = "https://perf.example.com"
KEYS = [letter * 64 for letter in "abc"]
Answer = Callable[[httpx.Request], httpx.Response]


@dataclass
class Time:
    """A clock that only sleeping moves."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path)
    spool.add_document(b"{}", KEYS[0], SERVER, now_ms=1_700_000_000_000)
    return spool


def a_client(*answers: Answer) -> ApiClient:
    """A server that gives these answers in turn, and the last one for ever."""
    left = list(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        return (left.pop(0) if len(left) > 1 else left[0])(request)

    return ApiClient(open_http_client(SERVER, token="pfciu_x", transport=httpx.MockTransport(handle)))


def stored(request: httpx.Request) -> httpx.Response:
    return receipt(request, stored=True)


def known(request: httpx.Request) -> httpx.Response:
    return receipt(request, stored=False)


def receipt(request: httpx.Request, *, stored: bool) -> httpx.Response:
    upload_receipt = UploadReceipt(
        key=request.headers["Idempotency-Key"], project="p", stored=stored, results=1, samples=1
    )
    return httpx.Response(201 if stored else 200, text=upload_receipt.model_dump_json())


def lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("the connection was reset")


def says(status: int, **headers: str) -> Answer:
    return lambda _: httpx.Response(status, headers=headers, text="no problem document")


def patience(time: Time, **changes: object) -> FlushRetryPolicy:
    values = {
        "monotonic": lambda: time.now,
        "sleep": time.sleep,
        "random_fraction": lambda: 1.0,
        "now_ms": lambda: 1_700_000_000_000,
    }
    return FlushRetryPolicy(**{**values, **changes})  # type: ignore[arg-type]


def test_removes_acknowledged_documents(spool: Spool, time: Time) -> None:
    flushed = flush_spool(spool, a_client(stored), patience(time))

    assert [sent_item.key for sent_item in flushed.sent] == [KEYS[0]]
    assert (flushed.waiting, spool.list_waiting_documents(SERVER)) == (0, [])


def test_retries_after_a_lost_response(spool: Spool, time: Time) -> None:
    flushed = flush_spool(spool, a_client(lost, known), patience(time))

    assert (len(flushed.already_stored), time.slept) == (1, [1.0])


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
def test_sets_rejected_documents_aside(spool: Spool, time: Time, status: int) -> None:
    flushed = flush_spool(spool, a_client(says(status)), patience(time))

    assert (len(flushed.rejected), flushed.waiting, time.slept) == (1, 0, [])
    assert str(status) in flushed.rejected[0]


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_keeps_documents_that_another_token_or_server_may_accept(
    spool: Spool, time: Time, status: int
) -> None:
    flushed = flush_spool(spool, a_client(says(status)), patience(time))

    assert (flushed.waiting, len(flushed.messages), time.slept) == (1, 1, [])


def test_waits_for_retry_after(spool: Spool, time: Time) -> None:
    flush_spool(
        spool,
        a_client(says(429, **{"Retry-After": "7"}), says(503, **{"Retry-After": "2"}), stored),
        patience(time),
    )

    assert time.slept == [7.0, 2.0]


def test_backs_off_and_gives_up_without_losing_documents(spool: Spool, time: Time) -> None:
    flushed = flush_spool(spool, a_client(lost), patience(time, give_up_after_s=30.0))

    assert time.slept == [1.0, 2.0, 4.0, 8.0]
    assert (flushed.waiting, flushed.messages) == (
        1,
        [f"{SERVER} does not answer: the connection was reset."],
    )


def test_retries_forever_without_a_time_limit(spool: Spool, time: Time) -> None:
    three_days = 3 * 24 * 60 + 10
    answers: Iterator[Answer] = iter([lost] * three_days)
    client = a_client(*answers, known)

    flushed = flush_spool(spool, client, patience(time, give_up_after_s=None))

    assert (len(flushed.already_stored), flushed.waiting) == (1, 0)
    assert time.now > 3 * 86_400


def test_a_rejected_document_does_not_block_the_others(spool: Spool, time: Time) -> None:
    spool.add_document(b"[]", KEYS[1], SERVER, now_ms=1_700_000_000_001)
    client = a_client(says(500), stored, says(500), says(500))

    flushed = flush_spool(spool, client, patience(time, give_up_after_s=2.0))

    assert [sent_item.key for sent_item in flushed.sent] == [KEYS[1]]
    assert [upload.key for upload in spool.list_waiting_documents(SERVER)] == [KEYS[0]]


def test_warns_about_documents_that_wait_too_long(spool: Spool, time: Time) -> None:
    later = 1_700_000_000_000 + 8 * 86_400_000

    flushed = flush_spool(spool, a_client(lost), patience(time, give_up_after_s=0.0, now_ms=lambda: later))

    assert flushed.messages[-1] == "1 of them wait for more than 7 days"


def test_rejects_a_receipt_for_another_key(spool: Spool, time: Time) -> None:
    other = UploadReceipt(key=KEYS[2], project="p", stored=True, results=1, samples=1).model_dump_json()

    flushed = flush_spool(
        spool, a_client(lambda _: httpx.Response(201, text=other)), patience(time, give_up_after_s=0.0)
    )

    assert (flushed.sent, flushed.waiting) == ([], 1)


def test_sends_the_token_to_no_other_host(spool: Spool, time: Time) -> None:
    requests = []

    def redirect(request: httpx.Request) -> httpx.Response:
        requests.append(request.url.host)
        return httpx.Response(307, headers={"Location": "https://evil.example.net/"})

    flush_spool(spool, a_client(redirect), patience(time))

    assert requests == ["perf.example.com"]
