"""Gunicorn's arbiter, worker and connections, changed where users would notice them."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from secrets import token_hex
from typing import Any

from flask import Flask
from gunicorn import util
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.http import wsgi
from gunicorn.http.errors import (
    ConfigurationProblem,
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.sock import TCP6Socket, TCPSocket
from gunicorn.workers.gthread import TConn, ThreadWorker

from perfci.model import PerfciError
from perfci_web.api.problem_details import ProblemError, build_problem_response

ARBITER_SIGNALS = (*Arbiter.SIGNALS, signal.SIGCHLD)
"""The signals that the arbiter handles while it serves."""

SERVER_FAULTS = (ConfigurationProblem, InvalidResponseHeader, InvalidResponseHeaderName)
"""Parse errors for which no client is to blame."""

RECEIVE_BYTES = 8192
END_OF_HEAD = b"\r\n\r\n"
MAX_BUFFERED_HEAD_BYTES = 65_536
"""A thread reads what is longer, up to gunicorn's limits."""

log = logging.getLogger("perfci.server")

wsgi.SERVER = "perfci"  # the header Server: it tells strangers no version


class GunicornApplication(BaseApplication):  # type: ignore[misc]
    """What gunicorn serves: an application that was built before the fork, with options."""

    def __init__(self, app: Flask, options: Mapping[str, Any]) -> None:
        self._app, self._options = app, options
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


class PoolConnection(TConn):  # type: ignore[misc]
    """One connection, and the head of its next request as far as it has arrived."""

    head = b""

    def receive_head(self) -> bool:
        """Take what has arrived; whether a thread has to read on."""
        chunk = self.sock.recv(RECEIVE_BYTES)
        self.head += chunk
        return not chunk or END_OF_HEAD in self.head or len(self.head) > MAX_BUFFERED_HEAD_BYTES

    def close(self, graceful: bool = False) -> None:
        """Close it at once: the thread that answered has read what was left of the request."""
        util.close(self.sock)


class PoolWorker(ThreadWorker):  # type: ignore[misc]
    """A process that answers requests in threads; a connection occupies one only amid a request."""

    def init_signals(self) -> None:
        super().init_signals()
        # A terminal sends these to all its processes, but only the arbiter ends workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, Arbiter.SIGNALS)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Stop or go on accepting; a worker that ends closes its sockets at once, so that clients are refused
        and come back instead of waiting for nobody."""
        super().set_accept_enabled(enabled)
        if not enabled and not self.alive:
            for listener in self.sockets:
                listener.close()

    def is_parent_alive(self) -> bool:
        """Whether the arbiter lives; a worker that outlives it answers what was begun and frees the port."""
        self.alive = self.alive and super().is_parent_alive()
        return self.alive

    def accept(self, listener: Any) -> None:
        """Accept a connection and wait for its request without a thread: browsers open some in advance."""
        try:
            client, address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another worker was faster, or the client left
            return
        self.nr_conns += 1
        connection = PoolConnection(self.cfg, client, address, listener.getsockname())
        connection.data_ready = True  # once the poller says so
        connection.set_timeout()
        self.keepalived_conns.append(connection)
        self.poller.register(
            client, selectors.EVENT_READ, partial(self.on_client_socket_readable, connection)
        )

    def on_client_socket_readable(self, conn: PoolConnection, client: socket.socket) -> None:
        """Give a connection a thread once the head of its request is there, however slowly it arrives."""
        needs_thread = True
        with contextlib.suppress(OSError):  # the thread meets it again
            needs_thread = conn.receive_head()
        if needs_thread:
            super().on_client_socket_readable(conn, client)

    def handle(self, conn: PoolConnection) -> Any:
        """Answer one request; whether the connection stays open."""
        conn.init()
        unreader = conn.parser.unreader
        unreader.unread(conn.head)
        is_kept_alive = super().handle(conn)
        conn.head = b""
        if is_kept_alive:
            # The beginning of a next request waits for its rest without a thread as well.
            if END_OF_HEAD not in unreader.buf.getvalue():
                conn.head = unreader.take_buffered()
        else:
            util.close_graceful(conn.sock)  # waits for the client, which the main thread must not do
        return is_kept_alive

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer a request that is no HTTP, or an error of the server, with a problem document."""
        request_id = token_hex(8)
        if isinstance(exc, ParseException) and not isinstance(exc, SERVER_FAULTS):
            problem = ProblemError("bad-request", _parse_error_text(exc))
        else:
            log.error("request %s failed", request_id, exc_info=exc)
            problem = ProblemError("internal-error", "The server could not answer.")
        answer = build_problem_response(problem, request_id)
        answer.headers["Connection"] = "close"
        head = f"HTTP/1.1 {answer.status}\r\n{answer.headers}".encode("latin-1")
        with contextlib.suppress(OSError):
            client.sendall(head + answer.get_data())


class GunicornLogger(Logger):  # type: ignore[misc]
    """Gunicorn's lines go where all others go, those of every day to nobody."""

    def setup(self, cfg: Any) -> None:
        self.error_log.propagate = True
        self.error_log.setLevel(logging.WARNING)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        if not isinstance(sys.exc_info()[1], BlockingIOError):  # a client that was too slow is no fault
            super().exception(msg, *args, **kwargs)


def _parse_error_text(error: ParseException) -> str:
    if isinstance(error, LimitRequestLine):
        return "The address is too long."
    if isinstance(error, LimitRequestHeaders):
        return "The headers are too long or too many."
    return f"{str(error)[:200]}."
