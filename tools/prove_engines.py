"""Search the demo's repository for a planted slowdown through each engine, and lose a worker on the way.

`python -m tools.prove_engines` starts a Ray cluster on loopback, stops it again, and prints a table. Each
search is an order of its own clone and store: by a worker here, through Ray, and through Ray with its worker
killed in the middle.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfci.demo.sample_repository import make_sample_repository, read_planted_changes
from tests.support.reserved_ports import reserve_port

GOOD, BAD = "HEAD~12", "HEAD"
CLUSTER_START_S, SEARCH_S = 120.0, 1200.0
KILL_AFTER = 5
"""Processes that are measured when the worker is killed."""


@dataclass(frozen=True, slots=True)
class SearchRow:
    """What one engine answered, and what is stored of it."""

    engine: str
    outcome: str
    commit: str
    probability: float
    processes: int
    stored: int
    sessions: int
    attempts: int
    workers: int
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Search with each engine, and compare the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", default=r"^training\.Step\.time_step$")
    parser.add_argument("--metric", default="time")
    parser.add_argument("--good", default=GOOD)
    parser.add_argument("--bad", default=BAD)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_sample_repository(folder / "origin")
        planted = read_planted_changes(folder / "origin")
        with run_cluster(folder) as address:
            rows = [
                search(folder, "local", options, address),
                search(folder, "ray", options, address),
                search(folder, "ray", options, address, kill=True),
            ]
    print("planted:", ", ".join(f"{change.sha[:10]} {change.metric}" for change in planted))
    for row in rows:
        print(row)
    agree = len({(row.outcome, row.commit) for row in rows}) == 1
    whole = all(row.stored == row.processes and row.sessions == 1 for row in rows)
    print("same answer:", agree, "| nothing lost or double:", whole)
    return 0 if agree and whole else 1


def search(
    folder: Path, engine: str, options: argparse.Namespace, address: str, *, kill: bool = False
) -> SearchRow:
    """Order a bisect in a clone of its own, and carry it out."""
    clone = folder / f"{engine}{'-killed' if kill else ''}"
    shutil.copytree(folder / "origin", clone)
    config = clone / "perfci.toml"
    text = config.read_text() if config.exists() else ""
    config.write_text(f'{text}\n[engines]\nray_address = "{address}"\n')
    order = ["order", "bisect", f"{options.good}..{options.bad}", "--bench", options.bench]
    run_perfci(clone, *order, "--metric", options.metric, "--engine", engine)
    began = time.monotonic()
    worker = subprocess.Popen(
        [sys.executable, "-m", "perfci.cli", "work", "--once", "--engine", engine], cwd=clone
    )
    killed = kill_ray_worker(clone, worker) if kill else 0
    worker.wait(SEARCH_S)
    return read_row(
        clone, f"{engine}{', worker killed' if kill else ''}", 1 + killed, time.monotonic() - began
    )


def read_row(clone: Path, engine: str, workers: int, seconds: float) -> SearchRow:
    """Read what the order says, and what its store has."""
    order = json.loads(run_perfci(clone, "order", "show", "1", "--json"))
    bisect = order.get("bisect") or {}
    metric = bisect.get("metric", "")
    count = (
        "select count(distinct p.id) from processes p join results r on p.result_id = r.id "
        f"join series s on r.series_id = s.id where s.metric = '{metric}'"
    )
    return SearchRow(
        engine,
        order["result"]["verdict"] if order["result"] else order["problem"],
        (bisect.get("commit") or "")[:10],
        round(bisect.get("probability") or 0.0, 3),
        bisect.get("processes", 0),
        query(clone, count),
        query(clone, "select count(*) from sessions where kind = 'bisect'"),
        order["attempts"],
        workers,
        round(seconds, 1),
    )


def kill_ray_worker(clone: Path, worker: subprocess.Popen[bytes]) -> int:
    """Kill the process of the cluster that carries out the order, once it has measured something."""
    ends_at = time.monotonic() + SEARCH_S
    while time.monotonic() < ends_at and worker.poll() is None:
        if query(clone, "select count(*) from processes") >= KILL_AFTER:
            for pid in find_task_processes():
                os.kill(pid, signal.SIGKILL)
                return 1
        time.sleep(0.05)
    return 0


def find_task_processes() -> list[int]:
    """The workers of Ray that carry out a task of perfci: Ray names them after it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if re.match(r"ray::perfci order", title):
                found.append(int(entry.name))
    return found


def query(clone: Path, text: str) -> int:
    """One number of the store."""
    path = clone / ".perfci" / "perfci.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return int(database.execute(text).fetchone()[0])


def run_perfci(clone: Path, *arguments: str) -> str:
    """Run a command of perfci in a clone."""
    command = [sys.executable, "-m", "perfci.cli", *arguments]
    return subprocess.run(command, cwd=clone, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def run_cluster(folder: Path, resources: str = '{"perfci": 1}') -> Iterator[str]:
    """Run a Ray cluster of one node on loopback; it ends with this block, by the process that was started."""
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
    command = [
        str(Path(sys.executable).parent / "ray"),
        "start",
        "--head",
        "--block",
        f"--port={port}",
        "--node-ip-address=127.0.0.1",
        "--include-dashboard=false",
        "--disable-usage-stats",
        "--num-cpus=1",
        f"--resources={resources}",
        "--object-store-memory=80000000",
        f"--temp-dir={folder / 'cluster'}",
    ]
    with (folder / "ray.log").open("wb") as log:
        cluster = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for_cluster(folder / "ray.log", cluster)
        yield f"127.0.0.1:{port}"
    finally:
        cluster.terminate()
        try:
            cluster.wait(30)
        finally:
            end_session(cluster.pid)


def wait_for_cluster(log: Path, cluster: subprocess.Popen[bytes]) -> None:
    """Wait until the head node answers."""
    ends_at = time.monotonic() + CLUSTER_START_S
    while "Ray runtime started" not in log.read_text():
        if cluster.poll() is not None or time.monotonic() > ends_at:
            raise SystemExit(f"Ray did not start:\n{log.read_text()}")
        time.sleep(0.2)


def end_session(session: int) -> None:
    """End what is left of the session of the cluster: nothing of it may outlive this program."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                os.kill(int(entry.name), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
