"""Serve the dashboard and the API with gunicorn until a signal ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import multiprocess

from perfci.config import Secrets, Settings
from perfci.model import PerfciError
from perfci.service.gc_tuning import tune_gc
from perfci.store import Store
from perfci_web.api.request_pipeline import MIB
from perfci_web.application import create_app
from perfci_web.gunicorn_customizations import (
    ARBITER_SIGNALS,
    GunicornApplication,
    GunicornLogger,
    PoolArbiter,
)
from perfci_web.gunicorn_worker import ConnectionLimits, PoolWorker
from perfci_web.prometheus import share_counters_between_workers
from perfci_web.server_access_mode import effective_access_settings, is_loopback

GRACEFUL_TIMEOUT_S = 20
"""How long requests that were begun may take once the end was asked for; orchestrators kill after 30 s."""

WORKER_TIMEOUT_S = 60
"""A worker whose main thread says nothing for so long is ended; requests are in other threads and may take
longer."""

CLIENT_TIMEOUT_S = 30.0
"""How long a client may send or take nothing amid a body or an answer."""

KEEPALIVE_S = 75
"""How long a connection may take until the head of its next request is there."""

CONNECTIONS = 800
"""Open connections of one worker; systems allow a process 1,024 files by default."""

MAX_BUFFERED_BYTES = 64 * MIB
"""Memory of one worker for bodies that arrive and answers that are read slowly."""

MAX_HEADER_LINE_BYTES = 8190

BACKLOG = 512
"""Connections the kernel queues while no worker accepts any."""

SHARED_MEMORY = Path("/dev/shm")
"""Workers show that they are alive by touching a file; on a container's slow disk that alone may block
them."""


def serve(
    store: Store,
    host: str,
    port: int,
    *,
    local_token: str,
    read_only: bool = True,
    settings: Settings | None = None,
    secrets: Secrets | None = None,
    on_tick: Callable[[], None] = lambda: None,
    on_worker_start: Callable[[], None] = lambda: None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, then return.

    ``port`` 0 picks a free one; ``on_ready`` learns the address. This process keeps ``[server] workers``
    forked ones alive, which answer the requests, and reaps all its children. ``on_tick`` runs in it about
    every second, ``on_worker_start`` in each worker as it begins. A server on a loopback address answers
    only requests that name it so, whatever name a foreign page points here; in mode "local" only who shows
    ``local_token`` is its user, or everybody where it is empty.
    """
    settings = effective_access_settings(host, settings or Settings())
    app = create_app(
        store,
        read_only=read_only,
        loopback_only=is_loopback(host),
        settings=settings,
        secrets=secrets,
        local_token=local_token,
    )
    store.close()  # a connection belongs to one process: each worker opens its own

    def close_app(arbiter: object, worker: PoolWorker) -> None:
        if worker.pid == os.getpid():  # gunicorn calls this in the parent too, where a worker got lost
            app.extensions["perfci"].group_commit.close()
            store.close()

    with (
        open_listener(host, port) as listener,
        share_counters_between_workers(),
        _restored_signals(),
        tune_gc(),
    ):
        url = format_server_url(host, listener)
        options = {
            "workers": settings.server.workers,
            "threads": settings.server.threads,
            "worker_class": PoolWorker,
            "worker_connections": CONNECTIONS,
            "keepalive": KEEPALIVE_S,
            "timeout": WORKER_TIMEOUT_S,
            "graceful_timeout": GRACEFUL_TIMEOUT_S,
            "limit_request_line": MAX_HEADER_LINE_BYTES,
            "limit_request_field_size": MAX_HEADER_LINE_BYTES,
            "forwarded_allow_ips": "",  # the application reads what proxies say, of those it trusts
            "control_socket_disable": True,
            "logger_class": GunicornLogger,
            "when_ready": lambda arbiter: on_ready(url),
            "post_fork": lambda arbiter, worker: on_worker_start(),
            "worker_exit": close_app,
            "child_exit": lambda arbiter, worker: multiprocess.mark_process_dead(worker.pid),  # type: ignore[no-untyped-call]
            **({"worker_tmp_dir": str(SHARED_MEMORY)} if os.access(SHARED_MEMORY, os.W_OK) else {}),
        }
        body_bytes = int(settings.server.max_body_mb * MIB)
        limits = ConnectionLimits(CLIENT_TIMEOUT_S, body_bytes, max(MAX_BUFFERED_BYTES, 2 * body_bytes))
        PoolArbiter(GunicornApplication(app, options, limits), listener, on_tick).run()


@contextlib.contextmanager
def open_listener(host: str, port: int) -> Iterator[socket.socket]:
    """Open one socket for a host name, also where ``localhost`` has several addresses.

    An error is one sentence.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise PerfciError(f"Cannot serve on {host}: {_error_text(error)}. Try --host 127.0.0.1.") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError as error:
            raise PerfciError(
                f"Cannot serve on {host} port {port}: {_error_text(error)}. "
                "Give another --port; 0 picks a free one."
            ) from error
        yield listener


def format_server_url(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(
        host, f"[{host}]" if ":" in host else host
    )
    return f"http://{shown}:{port}/"


@contextlib.contextmanager
def _restored_signals() -> Iterator[None]:
    """Give the caller its signal handlers back at the end."""
    before: dict[int, Any] = {number: signal.getsignal(number) for number in ARBITER_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _error_text(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).rstrip(".").lower()
