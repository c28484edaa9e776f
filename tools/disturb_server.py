"""Disturb a server in the ways that are no kill: what it acknowledged is stored, what it refused is not, it
recovers.

    python -m tools.disturb_server

A full disk (a small file system of its own, which takes root), another writer that holds the database,
bodies that break off, sockets that close half or not at all, a clock that was set back, a spool that waited
for days. All but the disk are done on SQLite and on PostgreSQL: a server whose own disk is full stops as a
whole, which is its own affair.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import sqlalchemy as sa

from perfci.formats import run_document
from perfci.net.api_client import ApiClient
from perfci.net.http_client import build_wsgi_transport, open_http_client
from perfci.net.spool_sender import FlushRetryPolicy, flush_spool
from perfci.net.upload_spool import Spool
from perfci.project_policies import ProjectPolicies
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import check_integrity, open_store
from perfci.store.writes.group_commit import MAX_WAIT_S
from perfci_web import create_app
from perfci_web.health_checks import WRITE_CHECK_INTERVAL_S
from tests.support.databases import KINDS, fresh_database
from tools.bench_store import build_large_run
from tools.kill_server import LOCAL_TOKEN, Server

SMALL_MB, ROOMY_MB = 3, 64
READY_MB = 128
"""A server is ready, and so has started, only with 100 MiB free."""


@dataclass
class DisturbanceResult:
    """What came of a disturbance; every sentence in ``broken`` is a promise that was not kept."""

    name: str
    figures: dict[str, object] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def expect(self, holds: bool, sentence: str) -> None:
        if not holds:
            self.broken.append(sentence)


AUTHORIZATION = {"Authorization": f"Bearer {LOCAL_TOKEN}"}


def upload_run(address: str, number: int, *, timeout: float = 60.0) -> httpx.Response:
    run = build_large_run(number, random.Random(number), (20, 2, 4))
    about = {"Content-Type": "application/json", "Content-Encoding": "gzip"} | AUTHORIZATION
    about["Idempotency-Key"] = run_document.idempotency_key(run)
    body = gzip.compress(run_document.dump_run(run).encode())
    return httpx.post(f"{address}/api/v1/runs", content=body, headers=about, timeout=timeout)


def count_stored_runs(url: str) -> int:
    with closing(open_store(url, create=False)) as store, store.read() as tx:
        return int(tx.execute(sa.text("SELECT count(*) FROM runs")).scalar_one())


@contextlib.contextmanager
def running_server(folder: Path, url: str) -> Iterator[Server]:
    open_store(url, create=True).close()
    server = Server(url, folder)
    server.start()
    try:
        yield server
    finally:
        server.end()


def fill_disk(folder: Path) -> DisturbanceResult:
    """Fill the disk by uploads, make room, and send again what was refused."""
    outcome, disk = DisturbanceResult("disk full"), folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={READY_MB}m", "none", str(disk)], check=True)
    try:
        url = f"sqlite:///{disk}/perfci.db"
        with running_server(folder, url) as server:
            subprocess.run(["mount", "-o", f"remount,size={SMALL_MB}m", str(disk)], check=True)
            acknowledged = 0
            while (
                answer := upload_run(server.address, acknowledged + 1)
            ).status_code == 201 and acknowledged < 500:
                acknowledged += 1
            ready = httpx.get(f"{server.address}/readyz", timeout=30)
            outcome.figures |= {"acknowledged before": acknowledged, "answer": answer.status_code}
            outcome.expect(answer.status_code == 503, f"a full disk was answered with {answer.status_code}")
            outcome.expect("Retry-After" in answer.headers, "no Retry-After")
            outcome.expect("disk is full" in answer.text, f"not said why: {answer.text[:200]}")
            outcome.expect(ready.status_code == 503, f"/readyz says {ready.status_code} on a full disk")
            outcome.expect(
                count_stored_runs(url) == acknowledged, "the rows are not those that were acknowledged"
            )
            subprocess.run(["mount", "-o", f"remount,size={ROOMY_MB}m", str(disk)], check=True)
            again = upload_run(server.address, acknowledged + 1)
            outcome.expect(
                again.status_code == 201,
                f"with room again it answers {again.status_code}: {again.text[:200]}",
            )
            outcome.expect(
                count_stored_runs(url) == acknowledged + 1, "the repeated upload is not stored once"
            )
        outcome.broken += check_integrity(url)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    return outcome


def hold_database(folder: Path, url: str, seconds: float = 10.0) -> DisturbanceResult:
    """Hold the write lock while four uploads arrive: they are stored afterwards, or refused before their
    client gives up and stored when they are sent again. Reading goes on.
    """
    outcome = DisturbanceResult(f"database locked {seconds:g} s")
    with running_server(folder, url) as server, write_lock_held(url) as other:
        upload_run(server.address, 1)
        answers: list[int] = []
        other.exec_driver_sql(HOLD[other.dialect.name])
        began = time.monotonic()
        senders = [
            threading.Thread(
                target=lambda number=number: answers.append(upload_run(server.address, number).status_code)
            )
            for number in range(2, 6)
        ]
        for sender in senders:
            sender.start()
        time.sleep(WRITE_CHECK_INTERVAL_S)  # as long as `/readyz` may answer from the last check
        ready = httpx.get(f"{server.address}/readyz", timeout=30).status_code
        asked = time.monotonic()
        read = httpx.get(f"{server.address}/api/v1/projects", headers=AUTHORIZATION, timeout=30)
        outcome.figures["read meanwhile"] = f"{(time.monotonic() - asked) * 1000:.0f} ms"
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        early = len(answers)
        other.exec_driver_sql("COMMIT")
        for sender in senders:
            sender.join()
        again = [upload_run(server.address, number).status_code for number in range(2, 6)]
        outcome.figures |= {"/readyz meanwhile": ready, "answers": answers, "sent again": again}
        is_refused = seconds > MAX_WAIT_S
        outcome.expect(early == (4 if is_refused else 0), f"{early} of 4 uploads were answered meanwhile")
        outcome.expect(
            ready == READY_WHILE_HELD[other.dialect.name], f"/readyz says {ready} while nobody can write"
        )
        outcome.expect(read.status_code == 200, f"reading answers {read.status_code} meanwhile")
        outcome.expect(answers == [503 if is_refused else 201] * 4, f"the uploads were answered {answers}")
        outcome.expect(set(again) <= {200, 201}, f"sent again they were answered {again}")
        outcome.expect(count_stored_runs(url) == 5, "not every upload is stored once")
    outcome.broken += check_integrity(url)
    return outcome


HOLD = {
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": "BEGIN; LOCK TABLE runs, results, processes IN EXCLUSIVE MODE",
}
"""What lets others read and nobody write."""

READY_WHILE_HELD = {"sqlite": 503, "postgresql": 200}
"""SQLite has one lock, for which /readyz asks; a table of PostgreSQL that somebody holds is no server that
is down.
"""


@contextlib.contextmanager
def write_lock_held(url: str) -> Iterator[sa.Connection]:
    """A connection of somebody else, who says when a transaction of his begins and ends."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        yield connection


def send_broken_bodies(folder: Path, url: str) -> DisturbanceResult:
    """Bodies that break off at every tenth of their length, sockets that close half, and some that say
    nothing.
    """
    outcome = DisturbanceResult("truncated bodies, half-closed sockets")
    with running_server(folder, url) as server:
        request = _request(server.address)
        kept = [_cut(server.address, request, share / 10, half=False) for share in range(1, 10)]
        answers = [_cut(server.address, request, share / 10, half=True) for share in range(1, 10)]
        silent = [_connection(server.address) for _ in range(20)]
        whole = upload_run(server.address, 2).status_code
        for item in silent:
            item.close()
        outcome.figures["answers to half-closed"] = sorted({answer[:12].decode() for answer in answers})
        outcome.expect(
            not any(b" 20" in answer[:13] for answer in (*answers, *kept)), "half a body was acknowledged"
        )
        outcome.expect(whole == 201, f"an upload beside 20 silent connections is answered {whole}")
        outcome.expect(count_stored_runs(url) == 1, "something of a broken body is stored")
    outcome.broken += check_integrity(url)
    return outcome


def _request(address: str) -> bytes:
    run = build_large_run(1, random.Random(1), (20, 2, 4))
    body = run_document.dump_run(run).encode()
    lines = [
        "POST /api/v1/runs HTTP/1.1",
        f"Host: {address.removeprefix('http://')}",
        "Content-Type: application/json",
        f"Authorization: Bearer {LOCAL_TOKEN}",
        f"Idempotency-Key: {run_document.idempotency_key(run)}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _connection(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=90)


def _cut(address: str, request: bytes, share: float, *, half: bool) -> bytes:
    """Send the beginning of a request; then close for good, or only our side and listen."""
    with _connection(address) as connection:
        connection.sendall(request[: int(len(request) * share)])
        if not half:
            return b""
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            return connection.recv(65536)
    return b""


def set_clock_back(folder: Path, url: str) -> DisturbanceResult:
    """Upload, set the clock back by a year, upload and judge: nothing waits for the old time to come
    again.
    """
    outcome = DisturbanceResult("clock set back a year")
    now = [datetime.now(UTC)]
    with closing(open_store(url, create=True)) as store:
        app = create_app(store, read_only=False, clock=lambda: now[0])
        with open_http_client("http://localhost", transport=build_wsgi_transport(app)) as door:
            answers = [_upload_by(ApiClient(door), 1)]
            now[0] -= timedelta(days=365)
            answers.append(_upload_by(ApiClient(door), 2))
        app.extensions["perfci"].group_commit.close()
        judged = JudgeWorker(store, lambda _: ProjectPolicies(), clock=lambda: now[0]).drain()
        outcome.figures |= {"stored": sum(answers), "judged": judged}
        outcome.expect(answers == [True, True], "an upload was not stored")
        outcome.expect(judged == 2, f"{judged} of 2 uploads were judged")
    outcome.broken += check_integrity(url)
    return outcome


def _upload_by(client: ApiClient, number: int) -> bool:
    run = build_large_run(number, random.Random(number), (20, 2, 4))
    body = gzip.compress(run_document.dump_run(run).encode())
    return client.upload_run(body, run_document.idempotency_key(run)).stored


def send_late_spool(folder: Path, url: str) -> DisturbanceResult:
    """Send what waited for three days, some of it stored already, twice."""
    outcome = DisturbanceResult("spool replayed after three days")
    spool = Spool(folder / "spool")
    with running_server(folder, url) as server, open_http_client(server.address, token=LOCAL_TOKEN) as door:
        client = ApiClient(door)
        for number in range(1, 9):
            run = build_large_run(number, random.Random(number), (20, 2, 4))
            key = run_document.idempotency_key(run)
            spool.add_document(run_document.dump_run(run).encode(), key, client.server_url)
            if number % 2:
                _upload_by(client, number)
        before = time.time() - 3 * 86400
        for path in (folder / "spool").rglob("*.gz"):
            os.utime(path, (before, before))
        first, second = (
            flush_spool(spool, client, FlushRetryPolicy()),
            flush_spool(spool, client, FlushRetryPolicy()),
        )
        outcome.figures |= {
            "sent": len(first.sent),
            "known": len(first.already_stored),
            "second time": len(second.sent),
        }
        outcome.expect((len(first.sent), len(first.already_stored)) == (4, 4), "not every run was sent once")
        outcome.expect(
            not (second.sent or second.already_stored or second.waiting), "something was left to send"
        )
        outcome.expect(count_stored_runs(url) == 8, "not every run is stored once")
    outcome.broken += check_integrity(url)
    return outcome


DISTURBANCES: tuple[Callable[[Path, str], DisturbanceResult], ...] = (
    hold_database,
    send_broken_bodies,
    set_clock_back,
    send_late_spool,
)


def _may_mount() -> bool:
    """A file system of one's own takes a capability, which root often lacks in a container."""
    [values] = re.findall(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), flags=re.M)
    return bool(int(values, 16) >> CAP_SYS_ADMIN & 1)


CAP_SYS_ADMIN = 21

MAY_FILL_A_DISK = _may_mount()


def run_all_disturbances() -> Iterator[tuple[str, DisturbanceResult]]:
    """Every disturbance on every database, each on a fresh one."""
    if MAY_FILL_A_DISK:
        with tempfile.TemporaryDirectory(prefix="perfci-disturb-") as folder:
            yield "sqlite", fill_disk(Path(folder))
    for kind, disturb in itertools.product(KINDS, DISTURBANCES):
        with (
            tempfile.TemporaryDirectory(prefix="perfci-disturb-") as folder,
            fresh_database(kind, Path(folder)) as url,
        ):
            yield kind, disturb(Path(folder), url)


def main() -> int:
    broken = 0
    for kind, result in run_all_disturbances():
        problems = "; ".join(result.broken) or "held"
        print(f"{kind:<10}  {result.name:<38} {json.dumps(result.figures)} {problems}", flush=True)
        broken += len(result.broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
