"""What breaks off, hangs or goes on too long on a real connection, to a server of one process and to one of
several.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from perfci.formats import run_document
from perfci.net.api_client import ApiClient
from perfci.net.http_client import open_http_client
from perfci.store import open_store
from tests.support.builders import a_result, a_run
from tools.kill_server import LOCAL_TOKEN, Server

MIB = 1024 * 1024


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two processes"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder}/perfci.db"
    open_store(url, create=True).close()
    server = Server(url, folder, workers=request.param)
    server.start()
    yield server
    server.end()


def a_request(session: str, **headers: str) -> tuple[bytes, bytes, str]:
    """The head and the body of an upload, and its key."""
    run = a_run(a_result(), session=session)
    key, body = run_document.idempotency_key(run), run_document.dump_run(run).encode()
    about = {
        "Host": "localhost",
        "Authorization": f"Bearer {LOCAL_TOKEN}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Idempotency-Key": key,
    }
    lines = [f"{name}: {value}" for name, value in (about | headers).items() if value]
    return "\r\n".join(["POST /api/v1/runs HTTP/1.1", *lines, "", ""]).encode(), body, key


def exchange(server: Server, *pieces: bytes, half_close: bool = False) -> bytes:
    """Send pieces and read until the server has nothing more to say."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                answer += chunk
                if _is_whole(answer):
                    break
        except OSError:  # refused, reset or left: what was answered until then counts
            pass
    return answer


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), None
    )
    return bool(end) and length is not None and len(body) >= length


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def stored(server: Server, key: str) -> bool:
    with closing(open_http_client(server.address, token=LOCAL_TOKEN)) as door:
        return any(run.key == key for run in ApiClient(door).list_runs("acme/model"))


def send_again(server: Server, body: bytes, key: str) -> int:
    headers = {
        "Authorization": f"Bearer {LOCAL_TOKEN}",
        "Idempotency-Key": key,
        "Content-Type": "application/json",
    }
    return httpx.post(f"{server.address}/api/v1/runs", content=body, headers=headers, timeout=60).status_code


def test_stores_no_truncated_body(server: Server) -> None:
    head, body, key = a_request("broken off")

    answer = exchange(server, head, body[:100], half_close=True)

    assert status_of(answer) in (0, 400)
    assert send_again(server, body, key) == 201


def test_stores_an_upload_once_if_its_client_disconnects(server: Server) -> None:
    head, body, key = a_request("half closed")

    exchange(server, head, body, half_close=True)

    assert send_again(server, body, key) in (200, 201)
    assert send_again(server, body, key) == 200
    assert stored(server, key)


def test_accepts_a_body_without_content_length(server: Server) -> None:
    head, body, _ = a_request("chunked", **{"Content-Length": "", "Transfer-Encoding": "chunked"})
    chunks = (
        b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (body[:50], body[50:])) + b"0\r\n\r\n"
    )

    assert status_of(exchange(server, head, chunks)) == 201


@pytest.mark.parametrize("with_length", [True, False], ids=["with_length", "found out"])
def test_answers_a_body_that_is_too_large_without_a_reset(server: Server, with_length: bool) -> None:
    size = 9 * MIB
    length = (
        {"Content-Length": str(size)}
        if with_length
        else {"Content-Length": "", "Transfer-Encoding": "chunked"}
    )
    head, _, _ = a_request("too large", **length)
    body = b" " * size if with_length else b"%x\r\n%s\r\n0\r\n\r\n" % (size, b" " * size)

    answer = exchange(server, head, body)

    assert status_of(answer) == 413
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "/api/problems/too-large"


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5, 6\r\n\r\nhello",
        b"GET /api/v1/projects HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 300_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
    ids=["negative length", "two lengths", "a long header", "a long address", "a TLS hello"],
)
def test_refuses_malformed_requests_and_survives(server: Server, request_: bytes) -> None:
    answer = exchange(server, request_, half_close=True)

    assert status_of(answer) in (0, 400, 404, 411, 413, 414, 431)
    assert httpx.get(f"{server.address}/healthz", timeout=60).is_success
