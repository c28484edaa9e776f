"""Serving for real: a process of its own, a port, a signal."""

import json
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest
from browsing import SERVE
from waitress.server import TcpWSGIServer

from perfci.model import PerfciError
from perfci.store import Store
from perfci_web import serve
from perfci_web.write_access import is_loopback


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_cleanly_and_in_silence(store: Store, ending: signal.Signals) -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", SERVE, store.url, "writable"], **pipes
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{url}healthz") as answer:
                health = json.load(answer)
            process.send_signal(ending)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()

    assert url.startswith("http://127.0.0.1:")
    assert health == {"status": "ok"}
    assert (process.returncode, out, err) == (0, "", "")


def test_a_signal_amid_a_new_connection_leaves_no_socket_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted: list[socket.socket] = []

    def struck(server: TcpWSGIServer, connection: socket.socket) -> None:
        accepted.append(connection)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(TcpWSGIServer, "set_socket_options", struck)
    with socket.socket() as visitor:
        serve(store, "127.0.0.1", 0, on_ready=lambda url: visitor.connect(("127.0.0.1", urlsplit(url).port)))

    assert [connection.fileno() for connection in accepted] == [-1]


def test_the_server_on_loopback_refuses_other_names(url: str) -> None:
    request = urllib.request.Request(f"{url}/healthz", headers={"Host": "rebound.example"})

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)

    assert refused.value.code == 403
    refused.value.close()


def test_a_taken_port_is_one_sentence(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PerfciError, match=rf"port {port}: address already in use\. Give another"):
            serve(store, "127.0.0.1", port)


def test_a_host_that_is_not_ours_is_one_sentence(store: Store) -> None:
    with pytest.raises(PerfciError, match=r"Cannot serve on no\.such\.host\.invalid: "):
        serve(store, "no.such.host.invalid", 0)


def test_the_signals_of_the_caller_are_given_back(store: Store) -> None:
    before = signal.getsignal(signal.SIGTERM)

    serve(store, "127.0.0.1", 0, on_ready=lambda url: signal.raise_signal(signal.SIGTERM))

    assert signal.getsignal(signal.SIGTERM) is before


def test_many_readers_are_served_at_once(url: str) -> None:
    answers: list[int] = []

    def read() -> None:
        with urllib.request.urlopen(f"{url}/acme:tiny-lm/") as answer:
            answers.append(answer.status)

    readers = [threading.Thread(target=read) for _ in range(12)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()

    assert answers == [200] * 12


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("perf.example", False),
    ],
)
def test_loopback_is_told_from_the_world(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
