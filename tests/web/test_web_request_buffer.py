"""Requests as they arrive: where each one ends."""

from __future__ import annotations

import pytest

from perfci_web.request_buffer import MAX_HEAD_BYTES, RequestBuffer

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\ncontent-LENGTH: 5\r\n\r\nhello"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = CHUNKED + b"5;name=value\r\nhello\r\n0A\r\n0\r\n\r\n0\r\n\r\n\r\n"

LIMIT = 100


@pytest.mark.parametrize(
    "request_",
    [GET, POST, CHUNKED + b"0\r\n\r\n", CHUNKS + b"0\r\n\r\n", CHUNKS + b"0\r\nName: value\r\n\r\n"],
    ids=["no body", "length", "empty chunks", "chunks", "trailer"],
)
def test_is_ready_with_the_last_byte_and_not_before(request_: bytes) -> None:
    buffer = RequestBuffer(LIMIT)
    ready = []
    for value in request_:
        buffer.add(bytes([value]))
        ready.append(buffer.is_answerable)

    assert ready == [False] * (len(request_) - 1) + [True]
    assert buffer.is_whole


@pytest.mark.parametrize("request_", [GET, POST, CHUNKS + b"0\r\n\r\n"], ids=["head", "length", "chunks"])
def test_is_whole_with_the_beginning_of_the_next_request(request_: bytes) -> None:
    buffer = RequestBuffer(LIMIT, request_ + GET[:9])

    assert (buffer.is_answerable, buffer.is_whole) == (True, True)


@pytest.mark.parametrize(
    "request_",
    [
        POST.replace(b"5", b"101"),
        CHUNKED + b"no size\r\n",
        CHUNKED + b"5\r\nhello\r\n-5\r\n",
        CHUNKED + b"1" * 9000,
        CHUNKED + b"FFFFFF\r\n" + b"a" * 70_000,
        b"a" * (MAX_HEAD_BYTES + 1),
    ],
    ids=["length", "size", "later size", "size line", "large chunk", "head"],
)
def test_is_ready_to_be_refused(request_: bytes) -> None:
    buffer = RequestBuffer(LIMIT, request_)

    assert (buffer.is_answerable, buffer.is_whole) == (True, False)


def test_waits_for_a_continue_only_while_the_body_is_missing() -> None:
    head, _, body = POST.partition(b"\r\n\r\n")
    head += b"\r\nExpect: 100-continue\r\n\r\n"

    assert RequestBuffer(LIMIT, head).awaits_continue
    assert not RequestBuffer(LIMIT, head + body).awaits_continue
