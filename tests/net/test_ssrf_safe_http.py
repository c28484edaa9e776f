"""Requests to URLs that users typed: checked addresses only, bounded time and size."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from perfci.model import PerfciError
from perfci.net.address_check import ForbiddenAddress
from perfci.net.http_client import open_http_client
from perfci.net.ssrf_safe_http import (
    MAX_RESPONSE_BYTES,
    CheckedTransport,
    HostUnreachable,
    send_checked_request,
)

HERE = [ipaddress.ip_network("127.0.0.0/8")]


class Receiver(BaseHTTPRequestHandler):
    """Answers as its path asks."""

    def do_POST(self) -> None:
        self.server.seen.append(
            (self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])))
        )  # type: ignore[attr-defined]
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/secret")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        if self.path == "/endless":
            while True:
                try:
                    self.wfile.write(b"x" * 65536)
                except OSError:
                    return
        if self.path == "/drip":
            for _ in range(1000):
                try:
                    self.wfile.write(b"x")
                except OSError:
                    return
                threading.Event().wait(0.02)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_connects_to_the_address_that_was_checked_and_names_the_host(receiver: ThreadingHTTPServer) -> None:
    url = f"http://chat.example:{receiver.server_port}/hook?x=1"

    answer = send_checked_request(
        "POST", url, body=b"{}", allowed_networks=HERE, resolver=lambda host, port: ["127.0.0.1"]
    )

    assert answer.status == 200
    ((path, headers, body),) = receiver.seen  # type: ignore[attr-defined]
    assert (path, headers["Host"], body) == ("/hook?x=1", f"chat.example:{receiver.server_port}", b"{}")


def test_follows_no_redirect(receiver: ThreadingHTTPServer) -> None:
    answer = send_checked_request(
        "POST", f"http://127.0.0.1:{receiver.server_port}/elsewhere", allowed_networks=HERE
    )

    assert answer.status == 302
    assert len(receiver.seen) == 1  # type: ignore[attr-defined]


def test_truncates_an_endless_response(receiver: ThreadingHTTPServer) -> None:
    answer = send_checked_request(
        "POST", f"http://127.0.0.1:{receiver.server_port}/endless", allowed_networks=HERE
    )

    assert len(answer.body) == MAX_RESPONSE_BYTES


def test_gives_up_on_a_slow_response(receiver: ThreadingHTTPServer) -> None:
    with pytest.raises(HostUnreachable, match="did not answer"):
        send_checked_request(
            "POST", f"http://127.0.0.1:{receiver.server_port}/drip", allowed_networks=HERE, timeout_s=0.3
        )


def test_rejects_localhost_before_sending(
    receiver: ThreadingHTTPServer,
) -> None:
    with pytest.raises(ForbiddenAddress):
        send_checked_request(
            "POST", f"https://hook.example:{receiver.server_port}/", resolver=lambda host, port: ["127.0.0.1"]
        )

    assert receiver.seen == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("url", ["http://hook.example/", "https://hook.example:8443/"])
def test_allows_only_https_on_port_443_to_public_hosts(url: str) -> None:
    with pytest.raises(ForbiddenAddress, match="only https on port 443 is used"):
        send_checked_request("POST", url, resolver=lambda host, port: ["8.8.8.8"])


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "file:///etc/passwd", "https://", "https://me:pw@a.example/", "x"]
)
def test_explains_an_invalid_url(url: str) -> None:
    with pytest.raises(PerfciError, match="address"):
        send_checked_request("POST", url)


def test_the_transport_applies_the_same_checks(receiver: ThreadingHTTPServer) -> None:
    url = f"http://127.0.0.1:{receiver.server_port}"
    with open_http_client(url, transport=CheckedTransport(HERE, 100)) as client:
        answer = client.post("/endless", json={"x": 1}, headers={"X-Perfci": "yes"})
    with (
        open_http_client(url, transport=CheckedTransport((), 100)) as stranger,
        pytest.raises(ForbiddenAddress),
    ):
        stranger.post("/hook")

    ((path, headers, body),) = receiver.seen  # type: ignore[attr-defined]
    assert (path, headers["x-perfci"], body) == ("/endless", "yes", b'{"x":1}')
    assert (answer.status_code, len(answer.content)) == (200, 100)
    assert "accept-encoding" not in headers
