"""Several processes: the dashboard and the API on gunicorn, which keeps them alive and lets them finish."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from perfci.config import Secrets, Settings
from perfci.service.gc_tuning import tune_gc
from perfci.store import Store
from perfci_web.application import create_app
from perfci_web.listen_socket import open_listener, server_url
from perfci_web.server import GRACEFUL_TIMEOUT_S
from perfci_web.write_access import is_loopback, settings_for_host

SHARED_MEMORY = Path("/dev/shm")
"""Workers show that they are alive by touching a file; on a container's slow disk that alone may block
them.
"""

WORKER_TIMEOUT_S = 60
"""A worker whose main thread says nothing for so long is ended; requests are in other threads and may take
longer.
"""


def serve_workers(
    open_store: Callable[[], Store],
    host: str,
    port: int,
    *,
    read_only: bool = True,
    settings: Settings | None = None,
    secrets: Secrets | None = None,
    on_tick: Callable[[], None] = lambda: None,
    on_worker_start: Callable[[], None] = lambda: None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then return.

    ``open_store`` runs in each worker: a database's connections belong to one process. ``every_second``
    runs in the parent, ``in_worker`` in each worker as it begins.
    """
    settings = settings_for_host(host, settings or Settings())
    server = settings.server

    def open_app() -> tuple[Flask, Store]:
        store = open_store()
        app = create_app(
            store,
            read_only=read_only,
            loopback_only=is_loopback(host),
            settings=settings,
            secrets=secrets,
        )
        return app, store

    with (
        open_listener(host, port) as listener,
        tempfile.TemporaryDirectory(prefix="perfci-metrics-") as metrics,
    ):
        options = {
            "bind": [f"fd://{os.dup(listener.fileno())}"],  # gunicorn closes what it is given
            "workers": server.workers,
            "threads": server.threads,
            "worker_class": "gthread",
            "worker_connections": 1000,
            "keepalive": 5,
            "timeout": WORKER_TIMEOUT_S,
            "graceful_timeout": int(GRACEFUL_TIMEOUT_S),
            "forwarded_allow_ips": "",  # the application reads what proxies say, of those it trusts
            "control_socket_disable": True,
            "logger_class": GunicornLogger,
            "raw_env": [f"PROMETHEUS_MULTIPROC_DIR={metrics}"],
            "when_ready": lambda arbiter: on_ready(server_url(host, listener)),
            "post_fork": lambda arbiter, worker: on_worker_start(),
            "worker_exit": lambda arbiter, worker: worker.app.close(),
            "child_exit": _drop_worker_metrics,
            **({"worker_tmp_dir": str(SHARED_MEMORY)} if os.access(SHARED_MEMORY, os.W_OK) else {}),
        }
        application = GunicornApplication(options, open_app)
        with contextlib.suppress(_CleanExit), tune_gc():
            TickingArbiter(application, on_tick).run()


class GunicornApplication(BaseApplication):  # type: ignore[misc]
    """What gunicorn serves; loaded in each worker, closed when that worker ends."""

    def __init__(self, options: Mapping[str, Any], open_app: Callable[[], tuple[Flask, Store]]) -> None:
        self._options, self._open = options, open_app
        self._opened: tuple[Flask, Store] | None = None
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        self._opened = self._open()
        return self._opened[0]

    def close(self) -> None:
        if self._opened:
            app, store = self._opened
            app.extensions["perfci"].group_commit.close()
            store.close()


class _CleanExit(SystemExit):
    """The arbiter ended as it was told to."""


class TickingArbiter(Arbiter):  # type: ignore[misc]
    """The parent of the workers, which looks after what else belongs to this server."""

    def __init__(self, application: GunicornApplication, on_tick: Callable[[], None]) -> None:
        self._every_second = on_tick
        super().__init__(application)

    def manage_workers(self) -> None:
        self._every_second()
        super().manage_workers()

    def halt(self, reason: str | None = None, exit_status: int = 0) -> None:
        try:
            super().halt(reason, exit_status)
        except SystemExit as end:
            raise (_CleanExit(0) if not end.code else end) from None


class GunicornLogger(Logger):  # type: ignore[misc]
    """Gunicorn's lines go where all others go, those of every day to nobody."""

    def setup(self, cfg: Any) -> None:
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)


def _drop_worker_metrics(arbiter: Arbiter, worker: Any) -> None:
    from prometheus_client import (
        multiprocess,
    )  # looks for its folder as it is imported, which is known only now

    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
