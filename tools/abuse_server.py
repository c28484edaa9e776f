"""Abuse a server in ways that take few rights or none, and measure meanwhile how everybody else fares.

    python -m tools.abuse_server [--seconds 6]

One server with the settings of a public dashboard: a login by GitHub, one worker, SQLite. Beside each abuse
four clients upload with a short rest after each run, one reads, and one asks ``/healthz`` twenty times a
second; the same clients are measured right before it. GitHub, its issuer of job tokens and the receiver of
notifications are sockets that accept and say nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import multiprocessing
import os
import random
import resource
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from perfci.auth.permissions import LOCAL, Scope
from perfci.formats import run_document
from perfci.net.url_segments import encode_segment
from perfci.service.accounts.projects_members_tokens import create_token
from perfci.service.audit_context import AuditContext
from perfci.store import open_store
from perfci.store.projects import find_project
from tests.support.builders import PROJECT
from tests.support.reserved_ports import get_port_number, reserve_port
from tests.support.signed_job_tokens import a_job, signed
from tests.support.waiting import until
from tools.bench_store import build_large_run
from tools.fill_store import add_commits

COMMITS, SERIES = 40, 300
UPLOADERS, REST_S = 4, 0.2
HEALTH_INTERVAL_S, READ_INTERVAL_S = 0.05, 0.1
BUDGET_MS = 250.0
CLIENT_TIMEOUT_S = 10.0
"""When perfci's own client gives up."""

RECOVERS_WITHIN_S = 30.0
SHAPE = (20, 2, 4)
JSON_HEADERS = {"Content-Type": "application/json"}
PAGES = f"/{encode_segment(PROJECT)}"
API = f"/api/v1/projects/{encode_segment(PROJECT)}"


@dataclass
class Measurement:
    """What bystanders saw for some seconds."""

    seconds: float = 0.0
    health_ms: list[float] = field(default_factory=list)
    read_ms: list[float] = field(default_factory=list)
    upload_ms: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def uploads_per_s(self) -> float:
        return (self.statuses[200] + self.statuses[201]) / self.seconds


def compute_p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else float("nan")


@dataclass(frozen=True)
class Target:
    """A running server, its database, its processes and tokens for everybody."""

    port: int
    database: Path
    pid: int
    tokens: Mapping[str, str]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        """Ask on a connection of its own; the answer is read whole."""
        with closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=6 * CLIENT_TIMEOUT_S)
        ) as client:
            client.request(method, path, body, headers)
            answer = client.getresponse()
            answer.read()
            return answer

    def connect(self) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", self.port))
        return client

    def authorize(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}"}

    @property
    def pids(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]


class Bystanders:
    """The clients beside an abuse."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._numbers = count(1_000_000)
        self._lock = threading.Lock()

    def measure(self, seconds: float) -> Measurement:
        measured, over = Measurement(seconds), threading.Event()
        clients = [
            threading.Thread(target=self._ask_health, args=(measured, over)),
            threading.Thread(target=self._read, args=(measured, over)),
            *(
                threading.Thread(target=self._upload, args=(f"uploader {number}", measured, over))
                for number in range(UPLOADERS)
            ),
        ]
        for client in clients:
            client.start()
        time.sleep(seconds)
        over.set()
        for client in clients:
            client.join()
        return measured

    def _ask_health(self, measured: Measurement, over: threading.Event) -> None:
        while not over.wait(HEALTH_INTERVAL_S):
            began = time.perf_counter()
            self._target.ask("GET", "/healthz")
            measured.health_ms.append((time.perf_counter() - began) * 1000)

    def _read(self, measured: Measurement, over: threading.Event) -> None:
        while not over.wait(READ_INTERVAL_S):
            began = time.perf_counter()
            self._target.ask("GET", f"{API}/commits", **self._target.authorize("reader"))
            measured.read_ms.append((time.perf_counter() - began) * 1000)

    def _upload(self, who: str, measured: Measurement, over: threading.Event) -> None:
        while not over.wait(REST_S):
            with self._lock:
                number = next(self._numbers)
            run = build_large_run(number, random.Random(number), SHAPE)
            headers = JSON_HEADERS | {"Content-Encoding": "gzip"} | self._target.authorize(who)
            headers["Idempotency-Key"] = run_document.idempotency_key(run)
            body = gzip.compress(run_document.dump_run(run).encode(), 1)
            began = time.perf_counter()
            answer = self._target.ask("POST", "/api/v1/runs", body, **headers)
            measured.upload_ms.append((time.perf_counter() - began) * 1000)
            measured.statuses[answer.status] += 1


def read_exports_idly(target: Target, stack: contextlib.ExitStack) -> None:
    """Ask for exports and read nothing."""
    token = target.authorize("abuser")["Authorization"]
    for _ in range(8):
        client = stack.enter_context(target.connect())
        client.sendall(
            f"GET {API}/export.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n\r\n".encode()
        )


def send_heads_slowly(target: Target, stack: contextlib.ExitStack) -> None:
    _drip(target, stack, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Drip: ")


def send_bodies_slowly(target: Target, stack: contextlib.ExitStack) -> None:
    _drip(
        target,
        stack,
        b"POST /api/v1/oidc/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100000\r\n\r\n",
    )


def _drip(target: Target, stack: contextlib.ExitStack, begun: bytes) -> None:
    """Send the beginning over forty connections, then a byte a second over each."""
    clients = [stack.enter_context(target.connect()) for _ in range(40)]
    for client in clients:
        client.sendall(begun)

    def send_byte() -> None:
        time.sleep(1)
        for client in clients:
            with contextlib.suppress(OSError):
                client.send(b" ")

    _repeat(stack, 1, send_byte)


def lock_database(target: Target, stack: contextlib.ExitStack) -> None:
    other = stack.enter_context(
        closing(sqlite3.connect(target.database, isolation_level=None, check_same_thread=False))
    )
    other.execute("BEGIN IMMEDIATE")
    stack.callback(other.execute, "COMMIT")


def fill_disk(target: Target, stack: contextlib.ExitStack) -> None:
    """Let no file grow: what a full disk and a full quota look like to a process."""
    for pid in target.pids:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, hard))
        stack.callback(resource.prlimit, pid, resource.RLIMIT_FSIZE, (hard, hard))


def exchange_tokens_of_a_dead_issuer(target: Target, stack: contextlib.ExitStack) -> None:
    token = signed(a_job(datetime.now(UTC)), kid="nobody")
    body = f'{{"project": "{PROJECT}", "token": "{token}"}}'
    _repeat(stack, 12, lambda: target.ask("POST", "/api/v1/oidc/token", body, **JSON_HEADERS))


def log_in_at_a_dead_github(target: Target, stack: contextlib.ExitStack) -> None:
    def log_in() -> None:
        begun = target.ask("GET", "/login/github")
        state = (begun.getheader("Location") or "").partition("state=")[2].partition("&")[0]
        cookie = (begun.getheader("Set-Cookie") or "").partition(";")[0]
        target.ask("GET", f"/login/github/callback?code=x&state={state}", Cookie=cookie)

    _repeat(stack, 12, log_in)


def test_a_hostile_receiver(target: Target, stack: contextlib.ExitStack) -> None:
    path, admin = f"{API}/destinations/hostile/test", target.authorize("admin")
    _repeat(stack, 12, lambda: target.ask("POST", path, **admin))


def ask_for_missing_pages(target: Target, stack: contextlib.ExitStack) -> None:
    storm = multiprocessing.get_context("spawn").Process(target=_storm, args=(target,), daemon=True)
    storm.start()
    stack.callback(storm.join)
    stack.callback(storm.kill)
    time.sleep(3)  # its imports


def _storm(target: Target) -> None:
    with contextlib.ExitStack() as stack:
        _repeat(stack, 8, lambda: target.ask("GET", f"{PAGES}/s/no.such.Benchmark.time_step/time"))
        time.sleep(3600)


def _repeat(stack: contextlib.ExitStack, threads: int, act: Callable[[], object]) -> None:
    """Act again and again in threads until the stack is closed."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                act()

    for _ in range(threads):
        threading.Thread(target=run, daemon=True).start()
    stack.callback(over.set)


@dataclass(frozen=True)
class Abuse:
    """One abuse, and whether anything can be stored meanwhile."""

    name: str
    begin: Callable[[Target, contextlib.ExitStack], None]
    can_store: bool = True


ABUSES = (
    Abuse("8 idle readers of exports", read_exports_idly),
    Abuse("40 slow heads", send_heads_slowly),
    Abuse("40 slow bodies", send_bodies_slowly),
    Abuse("12 logins, GitHub is dead", log_in_at_a_dead_github),
    Abuse("12 job tokens, the issuer is dead", exchange_tokens_of_a_dead_issuer),
    Abuse("12 tests of a hostile receiver", test_a_hostile_receiver),
    Abuse("404 storm of 8 clients", ask_for_missing_pages),
    Abuse("locked database", lock_database, can_store=False),
    Abuse("full disk", fill_disk, can_store=False),
)


def list_broken_promises(abuse: Abuse, usual: Measurement, meanwhile: Measurement) -> list[str]:
    """Name the promises that were not kept."""
    broken = []
    if not compute_p99(meanwhile.health_ms) < BUDGET_MS:
        broken.append(f"/healthz took {compute_p99(meanwhile.health_ms):.0f} ms")
    if abuse.can_store and meanwhile.uploads_per_s < usual.uploads_per_s / 2:
        broken.append("others stored less than half of what they usually do")
    if max(meanwhile.upload_ms) > CLIENT_TIMEOUT_S * 1000:
        broken.append("an upload was answered after its client gave up")
    if set(meanwhile.statuses) - {200, 201, 503}:
        broken.append(f"uploads were answered {dict(meanwhile.statuses)}")
    return broken


@contextlib.contextmanager
def open_silent_server() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        held: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(listener.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        for client in held:
            client.close()


def prepare_database(database: Path) -> dict[str, str]:
    """Fill the database; return the tokens by who holds them."""
    context = AuditContext(LOCAL, datetime.now(UTC))
    with closing(open_store(f"sqlite:///{database}", create=True)) as store:
        add_commits(store, range(COMMITS), SERIES)
        with store.begin() as tx:
            tx.connection().exec_driver_sql("UPDATE projects SET visibility = 'public'")
            project = find_project(tx, PROJECT)
            assert project is not None
            uploaders = [f"uploader {number}" for number in range(UPLOADERS)]
            scopes = dict.fromkeys(uploaders, Scope.WRITE) | {"admin": Scope.ADMIN}
            scopes |= {"reader": Scope.READ, "abuser": Scope.READ}
            return {
                who: create_token(tx, context, project, who, [scope]).text for who, scope in scopes.items()
            }


@contextlib.contextmanager
def running_target(folder: Path, silent_port: int) -> Iterator[Target]:
    database = folder / "perfci.db"
    tokens = prepare_database(database)
    silent = f"http://127.0.0.1:{silent_port}"
    with reserve_port() as held, (folder / "log").open("wb") as log:
        port = get_port_number(held)
        variables = {
            "PERFCI_DB": f"sqlite:///{database}",
            "PERFCI_ACCESS_MODE": "github",
            "PERFCI_ACCESS_GITHUB_HOST": silent,
            "PERFCI_ACCESS_GITHUB_CLIENT_ID": "abuse",
            "PERFCI_GITHUB_CLIENT_SECRET": "abuse",
            "PERFCI_SERVER_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "PERFCI_NOTIFY_ALLOW_NETWORKS": "127.0.0.0/8",
        }
        server = subprocess.Popen(
            [sys.executable, "-m", "perfci.cli", "serve", "--no-worker", "--port", str(port)],
            cwd=folder,
            env={**os.environ, **variables},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            target = Target(port, database, server.pid, tokens)
            if not until(lambda: _is_ready(target)):
                raise RuntimeError((folder / "log").read_text()[-3000:])
            body = f'{{"kind": "webhook", "address": "{silent}/"}}'
            headers = JSON_HEADERS | target.authorize("admin")
            target.ask("PUT", f"{API}/destinations/hostile", body, **headers)
            yield target
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _is_ready(target: Target) -> bool:
    with contextlib.suppress(OSError):
        return target.ask("GET", "/readyz").status == 200
    return False


def format_row(abuse: Abuse, usual: Measurement, meanwhile: Measurement, problems: list[str]) -> str:
    cells = (
        abuse.name,
        f"{compute_p99(meanwhile.health_ms):.0f}",
        f"{compute_p99(meanwhile.read_ms):.0f}",
        f"{meanwhile.uploads_per_s:.1f}, {usual.uploads_per_s:.1f}",
        f"{max(meanwhile.upload_ms):.0f}",
        ", ".join(f"{number} x {status}" for status, number in sorted(meanwhile.statuses.items())),
        "; ".join(problems) or "kept",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description="Abuse a server and measure how everybody else fares.")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    parser.add_argument("--only", default="", help="abuses whose names contain this")
    options = parser.parse_args()
    broken = 0
    columns = "/healthz p99 ms | read p99 ms | uploads/s, usual | longest upload ms | answers"
    print(f"| abuse | {columns} | promises |\n|---|---|---|---|---|---|---|", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="perfci-abuse-") as folder,
        open_silent_server() as silent_port,
        running_target(Path(folder), silent_port) as target,
    ):
        bystanders = Bystanders(target)
        for abuse in ABUSES:
            if options.only not in abuse.name:
                continue
            usual = bystanders.measure(options.seconds)
            with contextlib.ExitStack() as stack:
                abuse.begin(target, stack)
                time.sleep(1)
                meanwhile = bystanders.measure(options.seconds)
            problems = list_broken_promises(abuse, usual, meanwhile)
            if not until(lambda: _is_ready(target), RECOVERS_WITHIN_S):
                problems.append("the server did not recover")
            broken += len(problems)
            print(format_row(abuse, usual, meanwhile, problems), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
