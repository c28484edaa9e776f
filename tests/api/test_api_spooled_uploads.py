"""Spooled uploads reach the store after days without network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from api_client import Api

from perfci.formats import run_document
from perfci.net.api_client import ApiClient
from perfci.net.http_client import open_http_client
from perfci.net.spool_sender import FlushRetryPolicy, flush_spool
from perfci.net.upload_spool import Spool
from perfci.store import Store
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from tests.support.builders import NOON, PROJECT, a_result, a_run

SERVER = "http://localhost:8787"
DAY_MS = 86_400_000


class Line(httpx.BaseTransport):
    """A line to the application that loses what it is told to."""

    def __init__(self, api: Api) -> None:
        self._to = httpx.WSGITransport(app=api.app)
        self.loses_requests = self.loses_answers = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.loses_requests:
            raise httpx.ConnectError("no route to host")
        answer = self._to.handle_request(request)
        if self.loses_answers:
            raise httpx.ReadError("the connection was reset")
        return answer


@pytest.fixture
def line(api: Api) -> Line:
    return Line(api)


@pytest.fixture
def client(line: Line) -> Iterator[ApiClient]:
    with closing(open_http_client(SERVER, transport=line)) as door:
        yield ApiClient(door)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path / "spool")
    run = a_run(a_result())
    spool.add_document(
        run_document.dump_run(run).encode(),
        run_document.idempotency_key(run),
        SERVER,
        now_ms=1_700_000_000_000,
    )
    return spool


def at(days: float) -> FlushRetryPolicy:
    """A job that comes so many days later, and tries once."""
    return FlushRetryPolicy(
        give_up_after_s=0.0, now_ms=lambda: 1_700_000_000_000 + int(days * DAY_MS), sleep=lambda _: None
    )


def test_delivers_uploads_after_three_days_without_network(
    spool: Spool, client: ApiClient, line: Line
) -> None:
    line.loses_requests = True
    held_back = [flush_spool(spool, client, at(day)).waiting for day in (0, 1, 2, 3)]

    line.loses_requests = False
    flushed = flush_spool(spool, client, at(3.1))

    assert held_back == [1, 1, 1, 1]
    assert (len(flushed.sent), flushed.waiting) == (1, 0)


def test_recognises_an_upload_whose_answer_was_lost(spool: Spool, client: ApiClient, line: Line) -> None:
    line.loses_answers = True
    flush_spool(spool, client, at(0))

    line.loses_answers = False
    flushed = flush_spool(spool, client, at(3))

    assert (len(flushed.already_stored), len(flushed.sent), flushed.waiting) == (1, 0, 0)


def test_recognises_a_run_that_was_measured_into_the_same_database(
    store: Store, client: ApiClient, spool: Spool
) -> None:
    with store.begin() as tx:
        start_session(tx, PROJECT, "session-1", "history", "", 0, 1, NOON)
        find_or_add_run(tx, a_run(a_result()))

    flushed = flush_spool(spool, client, at(0))

    assert (len(flushed.already_stored), flushed.waiting) == (1, 0)
