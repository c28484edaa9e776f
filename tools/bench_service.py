"""How many uploads a second the service stores over HTTP, and how long one takes at half that load.

    python -m tools.bench_service --database sqlite

The server runs as it is deployed: ``perfci serve --workers 2``, durable commits, nothing of PostgreSQL
turned off; the clients are threads of this process with bodies prepared beforehand, on the same cores. Any
error voids all figures. The limit beside them is a plain insert of the same rows by the driver, ready
tuples and no HTTP, 32 runs a commit.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import itertools
import os
import random
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import sqlalchemy as sa

from perfci.cli.shared.supervised_process import NICENESS
from perfci.formats import run_document
from perfci.model import Run
from perfci.store import open_store
from tests.support.databases import KINDS
from tools.bench_store import GROUP, Plain, build_large_run, ingest_together, time_per_run
from tools.kill_server import LOCAL_TOKEN, Server, crashable_database
from tools.print_bench_figures import Figure, print_figures_and_exit

CLIENTS = 16
TICKS, NICE = slice(11, 13), 16
"""Where /proc/PID/stat has CPU time and priority, counted from behind the name."""

SHAPES = ((100, 5, 4), (100, 1, 20))
"""Benchmarks, processes of each, samples of each: five processes are what perfci measures, one is what
others send.
"""

UPLOADS_S, P99_MS, LARGE_S = 100.0, 250.0, 1.0


@dataclass(frozen=True)
class Upload:
    key: str
    body: bytes


@dataclass
class Tally:
    seconds: float = 0.0
    took_ms: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return len(self.took_ms) / self.seconds

    def percentile(self, share: float) -> float:
        return statistics.quantiles(self.took_ms, n=1000, method="inclusive")[round(share * 1000) - 1]


def measure_uploads(kind: str, seconds: float) -> Iterator[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="perfci-bench-") as folder,
        crashable_database(kind, Path(folder)) as (url, _),
    ):
        server = Server(url, Path(folder))
        server.start()
        try:
            numbers = itertools.count(1)
            for shape in SHAPES:
                limit = plain_inserts_per_second(url, Path(folder), shape)
                yield from _of_shape(kind, server, Path(folder), shape, limit, numbers, seconds)
            large = [serialize_upload(build_run_of_shape((1000, 5, 4), next(numbers))) for _ in range(3)]
            tally = send_uploads(server.address, large, clients=1)
            yield _timed(
                f"{kind}: one upload of 1,000 benchmarks", tally, max(tally.took_ms) / 1000, LARGE_S, "s"
            )
        finally:
            server.end()


def _of_shape(
    kind: str,
    server: Server,
    folder: Path,
    shape: tuple[int, int, int],
    limit: float,
    numbers: Iterator[int],
    seconds: float,
) -> Iterator[Figure]:
    name = f"{kind}: {shape[0]} x {shape[1]} x {shape[2]}"
    first = [
        serialize_upload(build_run_of_shape(shape, next(numbers))) for _ in range(8)
    ]  # brings the series, once for all
    send_uploads(server.address, first, clients=2)
    count = int(seconds * UPLOADS_S * 1.5)
    uploads = [serialize_upload(build_run_of_shape(shape, next(numbers))) for _ in range(count)]
    before, own = read_cpu_seconds(folder), time.process_time()
    full = send_uploads(server.address, uploads, clients=CLIENTS)
    own = (time.process_time() - own) * 1000 / count
    spent = {
        who: (after - before.get(who, 0.0)) * 1000 / count for who, after in read_cpu_seconds(folder).items()
    }
    if full.errors:
        yield Figure(
            f"{name}, full load", f"VOID: {len(full.errors)} errors, the first: {full.errors[0]}", "0", False
        )
        return
    yield Figure(
        f"{name}, uploads/s",
        f"{full.per_second:.0f}, plain insert {limit:.0f} ({full.per_second / limit:.0%})",
        f"{UPLOADS_S:.0f}",
        full.per_second >= UPLOADS_S,
    )
    storing_ms = spent.get("web", 0.0) + spent.get("postgres", 0.0)
    yield Figure(
        f"{name}, CPU of one upload",
        ", ".join(f"{who} {ms:.1f} ms" for who, ms in [("clients", own), *sorted(spent.items())]),
        f"web and database {2000 / UPLOADS_S:.0f} ms: two cores",
        storing_ms < 2000 / UPLOADS_S,
    )
    rate = full.per_second / 2
    uploads = [serialize_upload(build_run_of_shape(shape, next(numbers))) for _ in range(int(seconds * rate))]
    half = send_uploads(server.address, uploads, clients=CLIENTS * 4, rate=rate)
    yield _timed(f"{name}, half load, p99", half, half.percentile(0.99), P99_MS, "ms")
    yield _timed(f"{name}, half load, p50", half, half.percentile(0.5), P99_MS, "ms")


def _timed(name: str, tally: Tally, value: float, limit: float, unit: str) -> Figure:
    if tally.errors:
        return Figure(name, f"VOID: {len(tally.errors)} errors, the first: {tally.errors[0]}", "0", False)
    return Figure(name, f"{value:.3g} {unit}", f"{limit:g} {unit}", value < limit)


def build_run_of_shape(shape: tuple[int, int, int], number: int) -> Run:
    return build_large_run(number, random.Random(number), shape)


def serialize_upload(run: Run) -> Upload:
    return Upload(
        run_document.idempotency_key(run), gzip.compress(run_document.dump_run(run).encode(), compresslevel=6)
    )


def send_uploads(address: str, uploads: Sequence[Upload], *, clients: int, rate: float = 0.0) -> Tally:
    """Send all, as fast as can be or at a fixed rate whatever the server does; a late start counts as
    waiting.
    """
    waiting, lock, tally = iter(enumerate(uploads)), threading.Lock(), Tally()
    began = time.perf_counter()

    def client() -> None:
        host, port = address.removeprefix("http://").split(":")
        with closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
            while True:
                with lock:
                    number, upload = next(waiting, (0, None))
                if upload is None:
                    return
                due = began + number / rate if rate else time.perf_counter()
                time.sleep(max(0.0, due - time.perf_counter()))
                error = _sent(connection, upload)
                with lock:
                    tally.took_ms.append((time.perf_counter() - due) * 1000)
                    tally.errors += [error] if error else []

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.seconds = time.perf_counter() - began
    return tally


def _sent(connection: http.client.HTTPConnection, upload: Upload) -> str:
    about = {
        "Authorization": f"Bearer {LOCAL_TOKEN}",
        "Content-Type": "application/json",
        "Content-Encoding": "gzip",
        "Idempotency-Key": upload.key,
    }
    try:
        connection.request("POST", "/api/v1/runs", upload.body, about)
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return repr(error)
    return "" if answer.status == 201 else f"{answer.status} {text[:200]!r}"


def read_cpu_seconds(folder: Path) -> dict[str, float]:
    """CPU time so far of the processes that work in a folder: web workers, the judge, PostgreSQL."""
    spent: dict[str, float] = {}
    judges = os.getpriority(os.PRIO_PROCESS, 0) + NICENESS
    for about in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder in (place := (about / "cwd").readlink(), place.parent):
                stat = (about / "stat").read_text().rpartition(")")[2].split()
                is_ours = "perfci" in (about / "cmdline").read_text()
                who = ("judge" if int(stat[NICE]) == judges else "web") if is_ours else "postgres"
                spent[who] = spent.get(who, 0.0) + sum(map(int, stat[TICKS])) / os.sysconf("SC_CLK_TCK")
    return spent


def plain_inserts_per_second(url: str, folder: Path, shape: tuple[int, int, int]) -> float:
    """How many such runs a second the driver inserts, in the middle of some groups, each one commit."""
    with (
        closing(open_store(_beside(url, folder, "source"), create=True, durable=True)) as store,
        closing(open_store(_beside(url, folder, "limit"), create=True)) as target,
    ):
        limit = Plain(target.url, store.url)
        with closing(limit.connection):
            took = []
            for first in range(0, 4 * GROUP, GROUP):
                ingest_together(
                    store,
                    [build_run_of_shape(shape, number) for number in range(first, first + GROUP)],
                    first,
                )
                limit.prepare(GROUP)
                took.append(time_per_run(limit.insert)[0])
    return 1000 / statistics.median(took)


def _beside(url: str, folder: Path, name: str) -> str:
    """The address of another database on the same disk or server."""
    name = f"{name}_{uuid.uuid4().hex[:8]}"
    if url.startswith("sqlite"):
        return f"sqlite:///{folder}/{name}.db"
    with psycopg.connect(
        sa.make_url(url).set(drivername="postgresql").render_as_string(False), autocommit=True
    ) as item:
        item.execute(f"CREATE DATABASE {name}")
    return sa.make_url(url).set(database=name).render_as_string(hide_password=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=KINDS, help="one of them; otherwise both")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load")
    options = parser.parse_args()
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    print_figures_and_exit(
        figure
        for kind in ([options.database] if options.database else KINDS)
        for figure in measure_uploads(kind, options.seconds)
    )


if __name__ == "__main__":
    main()
