"""Serving for real: processes of its own, a port, signals."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from flask import Flask

from perfci.model import PerfciError
from perfci.store import Store
from perfci_web import serve
from perfci_web.gunicorn_worker import MAX_UNANSWERED_REQUESTS
from perfci_web.server_access_mode import is_loopback
from perfci_web.static_files import plotly_url_path
from tests.support.forked_server import ForkedServer, forked_server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SERVE = """
import sys
from perfci.store import open_store
from perfci_web import serve
store = open_store(sys.argv[1], create=False)
serve(store, "127.0.0.1", 0, local_token="", read_only=False, on_ready=lambda url: print(url, flush=True))
"""
HALF, REST = b"[" * 50, b"]" * 50
UPLOAD = (
    b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100\r\nConnection: close\r\n\r\n"
)
FORM_HEAD = (
    b"POST /acme:forms/incidents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n"
)
READ = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEALTHY = (200, '{"status":"ok"}\n')


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/perfci.db"


def with_header(*lines: bytes) -> bytes:
    return READ.replace(b"localhost", b"\r\n".join([b"localhost", *lines]))


def read_all(client: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(65536):
            answer += chunk
    return answer


@contextlib.contextmanager
def half_an_upload(server: ForkedServer) -> Iterator[socket.socket]:
    """A request in progress: a thread of the server waits for the rest of its body."""
    with server.connect() as client:
        client.sendall(UPLOAD + HALF)
        time.sleep(0.5)
        yield client


def test_ends_cleanly_and_silently_on_a_signal(store: Store) -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-W", "error", "-c", SERVE, store.url], **pipes) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{url}healthz") as answer:
                health = json.load(answer)
            process.terminate()
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()

    assert url.startswith("http://127.0.0.1:")
    assert health == {"status": "ok"}
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGHUP])
def test_finishes_requests_after_a_signal_of_a_terminal(
    database: str, tmp_path: Path, ending: signal.Signals, workers: int
) -> None:
    with forked_server(database, tmp_path, workers=workers) as server, half_an_upload(server) as client:
        os.killpg(server.pid, ending)
        time.sleep(0.5)
        client.sendall(REST)
        answer = read_all(client)
        code = server.wait()

    assert b" 400 BAD REQUEST" in answer
    assert b"/api/problems/bad-request" in answer
    assert (code, server.log) == (0, "returned\n")


def is_refused(server: ForkedServer) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def test_refuses_new_connections_while_it_ends(database: str, tmp_path: Path) -> None:
    with forked_server(database, tmp_path) as server, half_an_upload(server) as client:
        server.signal(signal.SIGTERM)
        refused = until(lambda: is_refused(server))
        client.sendall(REST)
        answer = read_all(client)

    assert refused
    assert b" 400 BAD REQUEST" in answer


def test_workers_of_a_killed_parent_free_the_port_and_finish_requests(database: str, tmp_path: Path) -> None:
    with (
        forked_server(database, tmp_path, workers=2) as server,
        half_an_upload(server) as client,
        server.connect() as kept_alive,
    ):
        kept_alive.sendall(READ)
        kept_alive.recv(65536)
        server.signal(signal.SIGKILL)
        refused = until(lambda: is_refused(server))
        client.sendall(REST)
        answer = read_all(client)

    assert refused
    assert b" 400 BAD REQUEST" in answer


def test_outlives_its_terminal_under_nohup(database: str, tmp_path: Path) -> None:
    with forked_server(database, tmp_path, ignores_hangup=True) as server:
        os.killpg(server.pid, signal.SIGHUP)
        time.sleep(0.5)
        answer = server.get("/healthz")
        server.signal(signal.SIGTERM)
        code = server.wait()

    assert (answer, code) == (HEALTHY, 0)


def test_ignores_signals_that_change_the_number_of_workers(database: str, tmp_path: Path) -> None:
    with forked_server(database, tmp_path, workers=2) as server:
        assert until(lambda: len(server.workers) == 2)
        before = server.workers
        for number in (signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
            server.signal(number)
        time.sleep(2)

        assert (server.workers, server.get("/healthz")) == (before, HEALTHY)


def test_handles_a_signal_during_the_start(store: Store) -> None:
    started = time.monotonic()

    serve(store, "127.0.0.1", 0, local_token="", on_ready=lambda url: signal.raise_signal(signal.SIGTERM))

    assert time.monotonic() - started < 15  # a worker that heard nothing is killed after 20 s


def test_restores_signals_and_store_of_the_caller(store: Store) -> None:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR2)
    before = [signal.getsignal(number) for number in numbers]

    serve(store, "127.0.0.1", 0, local_token="", on_ready=lambda url: signal.raise_signal(signal.SIGTERM))

    assert [signal.getsignal(number) for number in numbers] == before
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ
    with store.read():
        pass


def test_closes_database_connections_before_forking_workers(store: Store) -> None:
    with store.read():
        pass
    open_files: list[str] = []

    def list_open_files(url: str) -> None:
        open_files.extend(os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
        signal.raise_signal(signal.SIGTERM)

    serve(store, "127.0.0.1", 0, local_token="", on_ready=list_open_files)

    assert [name for name in open_files if name.endswith("perfci.db")] == []


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGABRT, signal.SIGKILL])
def test_replaces_a_worker_that_ended_and_keeps_its_counts(
    database: str, tmp_path: Path, ending: signal.Signals
) -> None:
    with forked_server(database, tmp_path, workers=2) as server:
        answers = [server.get("/healthz") for _ in range(6)]
        first = server.workers
        os.kill(first[0], ending)
        assert until(lambda: len(server.workers) == 2 and first[0] not in server.workers)
        answers += [server.get("/healthz") for _ in range(6)]
        statuses = [server.get(path)[0] for path in ("/", "/api/v1/projects", "/readyz") for _ in range(4)]
        _, metrics = server.get("/metrics")
        folders = list(tmp_path.glob("perfci-metrics-*"))
        server.signal(signal.SIGTERM)
        code = server.wait()

    assert answers == [HEALTHY] * 12
    assert statuses == [200] * 12
    assert 'perfci_requests_total{method="GET",route="healthz",status="200"} 12.0' in metrics
    assert (len(folders), list(tmp_path.glob("perfci-metrics-*"))) == (1, [])
    assert (code, server.log.count("returned")) == (0, 1)


def test_removes_the_counters_of_killed_servers_only(database: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "perfci-metrics-link").symlink_to(tmp_path / "elsewhere")

    def folders() -> set[Path]:
        return {each for each in tmp_path.glob("perfci-metrics-*") if not each.is_symlink()}

    with forked_server(database, tmp_path) as living:
        of_the_living = folders()
        with forked_server(database, tmp_path) as killed:
            os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
        of_the_killed = folders() - of_the_living
        with forked_server(database, tmp_path):
            after_start = folders()
        metrics = living.get("/metrics")

    assert (len(of_the_living), len(of_the_killed)) == (1, 1)
    assert of_the_living < after_start
    assert not of_the_killed & after_start
    assert (tmp_path / "elsewhere").is_dir()
    assert metrics[0] == 200


def test_occupies_no_thread_with_idle_connections(database: str, tmp_path: Path) -> None:
    with forked_server(database, tmp_path, threads=1) as server, contextlib.ExitStack() as idle:
        server.get("/healthz")
        for _ in range(20):
            idle.enter_context(server.connect())
        started = time.monotonic()
        answer = server.get("/healthz")
        answered_s = time.monotonic() - started
        server.signal(signal.SIGTERM)
        code = server.wait()
        ended_s = time.monotonic() - started - answered_s

    assert (answer, code) == (HEALTHY, 0)
    assert answered_s < 30  # gunicorn's own worker gives each of them a thread for 5 s
    assert ended_s < 15


@pytest.mark.parametrize(
    ("begun", "rest"), [(READ[:-3], READ[-3:]), (READ + READ[:20], READ[20:])], ids=["first", "next"]
)
def test_occupies_no_thread_with_slow_request_heads(
    database: str, tmp_path: Path, begun: bytes, rest: bytes
) -> None:
    with forked_server(database, tmp_path, threads=1) as server, contextlib.ExitStack() as slow:
        clients = [slow.enter_context(server.connect()) for _ in range(5)]
        for client in clients:
            client.sendall(begun)
        time.sleep(0.5)
        started = time.monotonic()
        answer = server.get("/healthz")
        answered_s = time.monotonic() - started
        for client in clients:
            client.sendall(rest)
            client.shutdown(socket.SHUT_WR)
        answers = [read_all(client).count(b"HTTP/1.1 200 OK") for client in clients]

    assert answer == HEALTHY
    assert answered_s < 25  # a thread waits 30 s for each
    assert answers == [begun.count(b"GET")] * 5


def test_is_not_blocked_by_clients_that_close_late(database: str, tmp_path: Path) -> None:
    request = READ.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with forked_server(database, tmp_path, threads=8) as server, contextlib.ExitStack() as late:
        server.get("/healthz")
        for _ in range(5):
            late.enter_context(server.connect()).sendall(request)
        started = time.monotonic()
        answer = server.get("/healthz")

        assert answer == HEALTHY
        assert time.monotonic() - started < 8  # gunicorn's own main thread waits 2 s for each of them


@pytest.mark.parametrize("begun", [READ[:20], UPLOAD + HALF], ids=["head", "body"])
def test_drops_a_client_that_stops_sending(database: str, tmp_path: Path, begun: bytes) -> None:
    with forked_server(database, tmp_path, threads=1, client_timeout_s=0.5, keepalive_s=1) as server:
        with server.connect() as client:
            client.sendall(begun)
            answer = read_all(client)

        assert answer == b"" or b" 400 BAD REQUEST" in answer
        assert server.get("/healthz") == HEALTHY
        assert server.log == ""


def test_drops_a_client_that_stops_reading(database: str, tmp_path: Path) -> None:
    request = READ.replace(b"/healthz", plotly_url_path().encode())
    with (
        forked_server(database, tmp_path, threads=1, client_timeout_s=0.5) as server,
        socket.socket() as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(request * 50)
        time.sleep(0.5)

        assert server.get("/healthz") == HEALTHY
        assert server.log == ""


def add_waiting_routes(app: Flask) -> None:
    """Routes that answer when a file is there, which keeps their thread as long as a test likes."""

    def wait() -> str:
        folder = Path(tempfile.gettempdir())
        (folder / "waits").touch()
        until((folder / "go-on").exists)
        return "went on"

    app.add_url_rule("/static/wait", "wait", wait, methods=["GET", "POST"])


@contextlib.contextmanager
def busy_threads(server: ForkedServer, method: str) -> Iterator[list[socket.socket]]:
    """Occupy the only thread that reads, or the only one that writes, and queue requests behind it."""
    with contextlib.ExitStack() as clients:
        waiting = [clients.enter_context(server.connect()) for _ in range(3)]
        for client in waiting:
            client.sendall(READ.replace(b"GET /healthz", f"{method} /static/wait".encode()))
        assert until((server.folder / "waits").exists)
        yield waiting
        (server.folder / "go-on").touch()
        for client in waiting:
            assert client.recv(65536).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_answers_health_checks_while_all_threads_are_busy(database: str, tmp_path: Path, method: str) -> None:
    with (
        forked_server(database, tmp_path, threads=1, add_routes=add_waiting_routes) as server,
        busy_threads(server, method),
    ):
        answers = [server.get("/healthz"), server.get("/readyz?now")]

    assert answers[0] == HEALTHY
    assert [status for status, _ in answers] == [200, 200]


def test_reads_while_writes_wait(database: str, tmp_path: Path) -> None:
    with (
        forked_server(database, tmp_path, threads=1, add_routes=add_waiting_routes) as server,
        busy_threads(server, "POST"),
    ):
        assert server.get("/api/v1/projects")[0] == 200


def test_writes_while_reads_wait(database: str, tmp_path: Path) -> None:
    with (
        forked_server(database, tmp_path, threads=1, add_routes=add_waiting_routes) as server,
        busy_threads(server, "GET"),
    ):
        url = f"http://127.0.0.1:{server.port}/api/v1/projects"
        assert httpx.post(url, json={"project": "acme/model"}, timeout=60).status_code == 201


def test_refuses_requests_without_a_thread_where_too_many_wait(database: str, tmp_path: Path) -> None:
    with (
        forked_server(database, tmp_path, threads=1, add_routes=add_waiting_routes) as server,
        busy_threads(server, "GET"),
        contextlib.ExitStack() as clients,
    ):
        for _ in range(MAX_UNANSWERED_REQUESTS - 3):
            client = clients.enter_context(server.connect())
            client.sendall(READ.replace(b"/healthz", b"/static/wait"))
        assert until(lambda: server.get("/static/plotly.js")[0] == 503)
        with server.connect() as refused:
            refused.sendall(READ.replace(b"/healthz", b"/"))
            answer = read_all(refused)

    assert answer.startswith(b"HTTP/1.1 503 SERVICE UNAVAILABLE\r\n")
    assert b"Retry-After: 2\r\n" in answer
    assert b"200 requests wait to be answered already: try again in 2 s." in answer


@pytest.mark.parametrize(
    "begun",
    [UPLOAD + HALF, UPLOAD.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked") + b"60\r\n" + HALF],
    ids=["length", "chunks"],
)
def test_occupies_no_thread_with_slow_bodies(database: str, tmp_path: Path, begun: bytes) -> None:
    with (
        forked_server(database, tmp_path, threads=1, client_timeout_s=3600) as server,
        contextlib.ExitStack() as slow,
    ):
        for _ in range(5):
            slow.enter_context(server.connect()).sendall(begun)
        url = f"http://127.0.0.1:{server.port}/api/v1/projects"

        assert httpx.post(url, json={"project": "acme/model"}, timeout=60).status_code == 201


def test_occupies_no_thread_with_answers_that_nobody_reads(database: str, tmp_path: Path) -> None:
    request = READ.replace(b"/healthz", plotly_url_path().encode())
    with (
        forked_server(database, tmp_path, threads=1, client_timeout_s=3600) as server,
        contextlib.ExitStack() as slow,
    ):
        for _ in range(5):
            client = slow.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(request)

        assert server.get("/api/v1/projects")[0] == 200


def test_occupies_no_thread_with_clients_that_do_not_close(database: str, tmp_path: Path) -> None:
    request = READ.replace(b"1.1", b"1.0")
    with forked_server(database, tmp_path, threads=1) as server, contextlib.ExitStack() as late:
        clients = [late.enter_context(server.connect()) for _ in range(5)]
        for client in clients:
            client.sendall(request)
        answers = [read_all(client) for client in clients]

    assert all(b" 200 OK\r\n" in answer for answer in answers)


def test_sends_a_long_answer_whole_to_a_slow_reader(database: str, tmp_path: Path) -> None:
    request = READ.replace(b"/healthz", plotly_url_path().encode())
    with forked_server(database, tmp_path, threads=1) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        client.sendall(request + READ.replace(b"localhost", b"localhost\r\nConnection: close"))
        assert server.get("/healthz") == HEALTHY
        answer = read_all(client)

    head, _, rest = answer.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    assert rest[size:].startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest.endswith(HEALTHY[1].encode())


def test_accepts_new_clients_in_the_place_of_the_oldest_idle_one(database: str, tmp_path: Path) -> None:
    with (
        forked_server(database, tmp_path, connections=5, keepalive_s=3600) as server,
        contextlib.ExitStack() as idle,
    ):
        clients = [idle.enter_context(server.connect()) for _ in range(10)]
        assert server.get("/healthz") == HEALTHY
        assert read_all(clients[0]) == b""
        clients[-1].sendall(READ)
        assert clients[-1].recv(65536).startswith(b"HTTP/1.1 200 OK")


def test_drops_the_oldest_body_where_memory_is_short(database: str, tmp_path: Path) -> None:
    begun = UPLOAD.replace(b"100", b"100000") + b" " * 90_000
    with (
        forked_server(database, tmp_path, max_body_mb=0.1, buffered_bytes=250_000) as server,
        server.connect() as oldest,
        server.connect() as older,
        server.connect() as newest,
    ):
        for client in (oldest, older, newest):
            client.sendall(begun)
            time.sleep(0.2)
        lost = read_all(oldest)
        older.sendall(b" " * 10_000)
        answer = read_all(older)

    assert lost == b""
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_answers_a_client_that_waits_for_leave_to_send_its_body(database: str, tmp_path: Path) -> None:
    with forked_server(database, tmp_path) as server, server.connect() as client:
        client.sendall(UPLOAD.replace(b"Connection", b"Expect: 100-continue\r\nConnection"))
        leave = client.recv(65536)
        client.sendall(HALF + REST)
        answer = read_all(client)

    assert leave == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert b"HTTP/1.1 400 BAD REQUEST" in answer


def test_refuses_a_body_that_is_too_large_before_it_is_sent(database: str, tmp_path: Path) -> None:
    with forked_server(database, tmp_path) as server, server.connect() as client:
        client.sendall(UPLOAD.replace(b"100", b"99000000") + HALF)
        client.sendall(REST * 1000)
        answer = read_all(client)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"A body of at most 8 MiB is taken." in answer


def test_serves_several_requests_on_a_connection_without_revealing_its_version(url: str) -> None:
    with contextlib.closing(http.client.HTTPConnection(url.removeprefix("http://"))) as client:
        client.connect()
        first = client.sock
        headers = []
        for _ in range(2):
            client.request("GET", "/healthz")
            answer = client.getresponse()
            answer.read()
            headers.append(answer.headers)

        assert client.sock is first

    assert [(each["Server"], each["Connection"]) for each in headers] == [("perfci", "keep-alive")] * 2


@pytest.mark.parametrize(
    ("request_", "detail"),
    [
        (b"NONSENSE\r\n\r\n", "Invalid HTTP request line: 'NONSENSE'."),
        (READ.replace(b"1.1", b"3.1"), "Invalid HTTP Version: (3, 1)."),
        (
            READ.replace(b"localhost", b"localhost\r\nContent-Length: -1"),
            "Invalid HTTP Header: 'CONTENT-LENGTH'.",
        ),
        (READ.replace(b"healthz", b"a" * 8190), "The address is too long."),
        (
            READ.replace(b"localhost", b"localhost\r\nX: " + b"a" * 8190),
            "The headers are too long or too many.",
        ),
        (
            READ.replace(b"localhost", b"localhost" + b"\r\nX: y" * 100),
            "The headers are too long or too many.",
        ),
        (
            UPLOAD.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked") + b"no size\r\n",
            "The body is malformed.",
        ),
        (
            UPLOAD.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked") + b"5\r\nab",
            "The body is incomplete.",
        ),
        (UPLOAD + b"[]", "The body ended before its Content-Length."),
    ],
    ids=["no HTTP", "version", "length", "address", "header", "headers", "chunk", "chunks end", "body ends"],
)
def test_answers_malformed_requests_with_a_problem_document(
    writable_server: ForkedServer, request_: bytes, detail: str
) -> None:
    with writable_server.connect() as client:
        client.sendall(request_)
        client.shutdown(socket.SHUT_WR)
        answer = read_all(client)
    head, _, body = answer.partition(b"\r\n\r\n")
    problem = json.loads(body)

    assert head.startswith(b"HTTP/1.1 400 BAD REQUEST\r\n")
    assert b"Content-Type: application/problem+json" in head
    assert (problem["type"], problem["status"], problem["detail"]) == (
        "/api/problems/bad-request",
        400,
        detail,
    )
    assert "Traceback" not in writable_server.log


@pytest.fixture(scope="module")
def writable_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedServer]:
    folder = tmp_path_factory.mktemp("writable")
    with forked_server(f"sqlite:///{folder}/perfci.db", folder) as server:
        url = f"http://127.0.0.1:{server.port}/api/v1/projects"
        httpx.post(url, json={"project": "acme/forms"}, timeout=60)
        yield server


@pytest.mark.parametrize(
    "send_body",
    [
        lambda form: b"Content-Length: %d\r\n\r\n%s" % (len(form), form),
        lambda form: b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(form), form),
    ],
    ids=["length announced", "chunked"],
)
@pytest.mark.parametrize(("form_bytes", "status"), [(500_000, b"409"), (500_001, b"413")])
def test_refuses_a_form_that_is_too_large(
    writable_server: ForkedServer, send_body: Callable[[bytes], bytes], form_bytes: int, status: bytes
) -> None:
    with writable_server.connect() as client:
        client.sendall(FORM_HEAD + send_body(b"comment=".ljust(form_bytes, b"a")))
        answer = read_all(client)

    assert answer.startswith(b"HTTP/1.1 %s " % status)
    assert (b"A form may have 500,000 bytes, this one has more" in answer) == (status == b"413")


@pytest.mark.parametrize(
    "begun",
    [b"Content-Length: 100\r\n\r\ncomment=half", b"Transfer-Encoding: chunked\r\n\r\n64\r\ncomment=half"],
    ids=["length announced", "chunked"],
)
def test_uses_no_form_that_broke_off(writable_server: ForkedServer, begun: bytes) -> None:
    with writable_server.connect() as client:
        client.sendall(FORM_HEAD + begun)
        client.shutdown(socket.SHUT_WR)
        answer = read_all(client)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"The form broke off before its end, and nothing was changed" in answer


def test_accepts_a_long_address(writable_server: ForkedServer) -> None:
    assert writable_server.get(f"/healthz?{'a' * 8000}") == HEALTHY


def test_refuses_other_host_names_when_served_on_loopback(url: str) -> None:
    request = urllib.request.Request(f"{url}/healthz", headers={"Host": "rebound.example"})

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)

    assert refused.value.code == 403
    refused.value.close()


def test_reports_a_taken_port_in_one_sentence(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PerfciError, match=rf"port {port}: address already in use\. Give another"):
            serve(store, "127.0.0.1", port, local_token="")


def test_reports_a_foreign_host_in_one_sentence(store: Store) -> None:
    with pytest.raises(PerfciError, match=r"Cannot serve on no\.such\.host\.invalid: "):
        serve(store, "no.such.host.invalid", 0, local_token="")


def test_serves_many_readers_at_once(url: str) -> None:
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
def test_distinguishes_loopback_from_public_hosts(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
