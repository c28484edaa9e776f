"""A server in a process forked from one that has imported it already: quick to start, with signals of its
own."""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask import Flask

from perfci.config import Settings
from perfci.store import open_store
from perfci_web import serve, server
from tests.support.waiting import WITHIN_S

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["perfci_web", __name__])


@dataclass
class ForkedServer:
    """A running server: its processes, its port, and the folder with its log and its temporary files."""

    process: ForkServerProcess
    port: int
    folder: Path

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def workers(self) -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN_S)

    def get(self, path: str) -> tuple[int, str]:
        """The status and the text at an address, on a connection of its own."""
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S)
        ) as client:
            client.request("GET", path)
            answer = client.getresponse()
            return answer.status, answer.read().decode()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int | None:
        """The exit code at its end; none if it does not end."""
        self.process.join(WITHIN_S)
        return self.process.exitcode


def no_routes(app: Flask) -> None:
    """Add nothing to the application."""


@contextlib.contextmanager
def forked_server(
    database: str,
    folder: Path,
    *,
    workers: int = 1,
    threads: int = 2,
    client_timeout_s: float = 30.0,
    keepalive_s: int = 75,
    connections: int = 800,
    buffered_bytes: int = 64 * 2**20,
    max_body_mb: float = 8,
    ignores_hangup: bool = False,
    add_routes: Callable[[Flask], None] = no_routes,
) -> Iterator[ForkedServer]:
    """Serve a database, writable, until the block ends, whatever a test did to it.

    ``add_routes`` is called with the application.
    """
    settings = Settings()
    table = settings.server.model_copy(
        update={"workers": workers, "threads": threads, "max_body_mb": max_body_mb}
    )
    settings = settings.model_copy(update={"server": table})
    constants = {
        "CLIENT_TIMEOUT_S": client_timeout_s,
        "KEEPALIVE_S": keepalive_s,
        "CONNECTIONS": connections,
        "MAX_BUFFERED_BYTES": buffered_bytes,
    }
    ready, tell = FORKS.Pipe(duplex=False)
    process = FORKS.Process(
        target=_run,
        args=(database, folder, settings, constants, ignores_hangup, add_routes, tell),
    )
    process.start()
    tell.close()
    try:
        port = urlsplit(ready.recv()).port
        assert port is not None
        yield ForkedServer(process, port, folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        ready.close()


def _run(
    database: str,
    folder: Path,
    settings: Settings,
    constants: Mapping[str, float],
    ignores_hangup: bool,
    add_routes: Callable[[Flask], None],
    tell: Connection,
) -> None:
    os.setsid()
    tempfile.tempdir = str(folder)
    for name, value in constants.items():
        setattr(server, name, value)
    create_app = server.create_app

    def create_app_with_routes(*args: Any, **options: Any) -> Flask:
        app = create_app(*args, **options)
        add_routes(app)
        return app

    server.create_app = create_app_with_routes
    # Whoever runs the tests under nohup, or in the background of a script, has them ignore both.
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores_hangup else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (folder / "log").open("ab", buffering=0) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    store = open_store(database, create=True)
    serve(store, "127.0.0.1", 0, local_token="", read_only=False, settings=settings, on_ready=tell.send)
    print("returned", flush=True)
