"""Gunicorn's application, arbiter and logger, changed where users would notice them."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.http import wsgi
from gunicorn.sock import TCP6Socket, TCPSocket

from perfci.model import PerfciError
from perfci_web.gunicorn_worker import ConnectionLimits

ARBITER_SIGNALS = (*Arbiter.SIGNALS, signal.SIGCHLD)
"""The signals that the arbiter handles while it serves."""

wsgi.SERVER = "perfci"  # the header Server: it tells strangers no version


class GunicornApplication(BaseApplication):  # type: ignore[misc]
    """What gunicorn serves: an application that was built before the fork, with options and with the limits
    of its workers."""

    def __init__(self, app: Flask, options: Mapping[str, Any], limits: ConnectionLimits) -> None:
        self._app, self._options, self.limits = app, options, limits
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        return self._app


class PoolArbiter(Arbiter):  # type: ignore[misc]
    """The parent of the workers: keeps as many alive as were asked for, and ends them gracefully."""

    def __init__(
        self, application: GunicornApplication, listener: socket.socket, on_tick: Callable[[], None]
    ) -> None:
        """Take the listener over, and close it once the end was asked for."""
        self._on_tick = on_tick
        super().__init__(application)
        kind = TCP6Socket if listener.family == socket.AF_INET6 else TCPSocket
        self.LISTENERS = [kind(listener.getsockname(), self.cfg, self.log, fd=listener.detach())]
        self.WORKERS: dict[int, Any] = {}  # all arbiters of a process share gunicorn's own

    def init_signals(self) -> None:
        ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        super().init_signals()
        if ignores_hangup:  # `nohup perfci serve` outlives its terminal
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    handle_int = handle_hup = Arbiter.handle_term

    def handle_ttin(self) -> None:
        """Ignore what lets gunicorn grow, shrink or execute itself again."""

    handle_ttou = handle_usr2 = handle_ttin

    def manage_workers(self) -> None:
        self._on_tick()
        super().manage_workers()

    def spawn_worker(self) -> None:
        """Fork a worker, which ends in here: what callers hold open is not its own to close or remove."""
        # A signal between the fork and the worker's own handlers would be lost.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, self.SIGNALS)
        try:
            super().spawn_worker()
        except SystemExit as end:  # raised in the worker only
            os._exit(end.code if isinstance(end.code, int) else 0)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def halt(self, reason: str | None = None, exit_status: int = 0) -> None:
        with contextlib.suppress(SystemExit):
            super().halt(reason, exit_status)
        if exit_status:
            raise PerfciError(f"The server ended: {str(reason).rstrip('.').lower()}; the log says why.")


class GunicornLogger(Logger):  # type: ignore[misc]
    """Gunicorn's lines go where all others go, those of every day to nobody."""

    def setup(self, cfg: Any) -> None:
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        if not isinstance(sys.exc_info()[1], TimeoutError):  # a client that was too slow is no fault
            super().exception(msg, *args, **kwargs)
