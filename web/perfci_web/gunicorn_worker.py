"""A gunicorn worker whose threads never wait for a client.

The main thread receives requests and sends the rest of answers, so that a client that is slow or silent
occupies memory, of which there is a budget, and no thread. Requests that read, requests that write and each
health check have threads of their own: neither a database that is locked nor costly pages keep the others
from being answered.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import select
import selectors
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Any, Literal, cast

from gunicorn.arbiter import Arbiter
from gunicorn.http.errors import (
    ConfigurationProblem,
    InvalidResponseHeader,
    InvalidResponseHeaderName,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from perfci_web.api.problem_details import ProblemError, build_problem_response
from perfci_web.request_buffer import RequestBuffer

SERVER_FAULTS = (ConfigurationProblem, InvalidResponseHeader, InvalidResponseHeaderName)
"""Parse errors for which no client is to blame."""

RECEIVE_BYTES = 65_536

LINGER_S = 2.0
"""How long a closed connection reads on: closing at once could take the answer from a client that sends."""

MAX_TRANSFER_S = 600.0
"""How long a body or an answer may take in all, while the client makes progress."""

TIMEOUT_CHECK_S = 0.2
"""How often waiting connections are checked for their timeouts."""

MAX_UNANSWERED_REQUESTS = 200
"""Requests of one kind that a worker takes at once: a quarter of its connections."""

BUSY_RETRY_S = 2

READING_REQUEST = re.compile(rb"(?:GET|HEAD|OPTIONS) ")
HEALTH_REQUEST = re.compile(rb"(?:GET|HEAD) /(healthz|readyz)[ ?]")

ClientPhase = Literal["head", "body", "answer", "closing"]
"""What a connection without a thread waits for: the head or the body of a request, or the client to take the
answer or to close."""

log = logging.getLogger("perfci.server")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a client may take of a worker: ``client_timeout_s`` without progress amid a body or an answer, and
    ``max_buffered_bytes`` of memory together with all others."""

    client_timeout_s: float
    max_body_bytes: int
    max_buffered_bytes: int


class RequestThreads(ThreadPoolExecutor):
    """The threads of one kind of requests, and how many of these are answered or wait for a thread."""

    unanswered = 0


class PoolSocket(socket.socket):
    """A client's socket. Threads read nothing from it; what it does not take at once is ``unsent``."""

    unsent = memoryview(b"")
    write_timeout_s = 30.0

    def receive(self) -> bytes:
        """Take what has arrived; ``BlockingIOError`` if that is nothing."""
        return super().recv(RECEIVE_BYTES, socket.MSG_DONTWAIT)

    def recv(self, *_: object) -> bytes:
        """End the request where the received bytes end."""
        return b""

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send without waiting; a second write waits until the client has taken the first."""
        if self.unsent:
            self._wait_until_taken()
        self.unsent = memoryview(data)
        self.send_unsent()

    def send_unsent(self) -> None:
        """Send as much as the client takes at once."""
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                self.unsent = self.unsent[self.send(self.unsent, socket.MSG_DONTWAIT) :]

    def _wait_until_taken(self) -> None:
        poll, until = select.poll(), time.monotonic() + self.write_timeout_s
        poll.register(self, select.POLLOUT)
        while self.unsent:
            left_s = until - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                raise TimeoutError(errno.ETIMEDOUT, "the client reads too slowly")
            self.send_unsent()


class PoolConnection(TConn):  # type: ignore[misc]
    """One connection, its next request as far as it has arrived, and what of the last answer is unsent."""

    def __init__(
        self, cfg: Any, client: PoolSocket, address: Any, server: Any, limits: ConnectionLimits
    ) -> None:
        super().__init__(cfg, client, address, server)
        client.write_timeout_s = limits.client_timeout_s
        self.data_ready = True  # no thread needs to wait for it
        self.phase: ClientPhase = "head"
        self.is_kept_alive = False
        self.phase_ends_at = 0.0
        self.counted_bytes = 0
        """Its part in the buffered bytes of the worker."""
        self._max_body_bytes = limits.max_body_bytes
        self.begin_request()

    def begin_request(self, received: bytes = b"") -> None:
        self.request = RequestBuffer(self._max_body_bytes, received)

    @property
    def buffered_bytes(self) -> int:
        return len(self.request.data) + len(self.sock.unsent)


class PoolWorker(ThreadWorker):  # type: ignore[misc]
    """A process that answers requests in threads, which a connection occupies only while it is answered."""

    def init_process(self) -> None:
        self.limits: ConnectionLimits = self.app.limits
        self.buffered_bytes = 0
        self.checks_timeouts_at = 0.0
        self.writing_threads = RequestThreads(self.cfg.threads, "perfci-writes")
        self.health_threads = {
            name: RequestThreads(1, f"perfci-{name.decode()}") for name in (b"healthz", b"readyz")
        }
        super().init_process()

    def get_thread_pool(self) -> RequestThreads:
        return RequestThreads(self.cfg.threads, "perfci-reads")

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
        self.alive: bool = self.alive and super().is_parent_alive()
        return self.alive

    def accept(self, listener: Any) -> None:
        """Accept a connection; where there are too many, the one that has waited longest gives way."""
        try:
            accepted, address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another worker was faster, or the client left
            return
        self.nr_conns += 1
        client = PoolSocket(accepted.family, accepted.type, accepted.proto, accepted.detach())
        connection = PoolConnection(self.cfg, client, address, listener.getsockname(), self.limits)
        self._wait(connection, "head")
        if self.nr_conns >= self.worker_connections and len(self.keepalived_conns) > 1:
            self._drop(self.keepalived_conns[0])

    def enqueue_req(self, conn: PoolConnection) -> None:
        """Give a request to the threads of its kind, or refuse it where too many wait for them."""
        threads = self._threads_for(conn.request)
        if threads.unanswered >= MAX_UNANSWERED_REQUESTS:
            self._refuse(conn)
            return
        threads.unanswered += 1
        answer = threads.submit(self.handle, conn)
        answer.add_done_callback(
            lambda future: self.method_queue.defer(self._finish_answer, threads, conn, future)
        )

    def _threads_for(self, request: RequestBuffer) -> RequestThreads:
        if health_check := HEALTH_REQUEST.match(request.data):
            return self.health_threads[health_check[1]]
        if READING_REQUEST.match(request.data):
            return cast(RequestThreads, self.tpool)
        return self.writing_threads

    def _refuse(self, conn: PoolConnection) -> None:
        """Answer without a thread that this worker has too much to do."""
        busy = ProblemError(
            "unavailable",
            f"{MAX_UNANSWERED_REQUESTS} requests wait to be answered already: try again in {BUSY_RETRY_S} s.",
            headers={"Retry-After": str(BUSY_RETRY_S)},
        )
        conn.begin_request()
        conn.is_kept_alive = False
        with contextlib.suppress(OSError):
            _send_problem(conn.sock, busy, token_hex(8))
        self._wait(conn, "answer")

    def handle(self, conn: PoolConnection) -> bool:
        """Answer one request; whether the connection stays open."""
        conn.init()
        unreader = conn.parser.unreader
        unreader.unread(bytes(conn.request.data))
        is_whole = conn.request.is_whole
        conn.begin_request()
        is_kept_alive = bool(super().handle(conn)) and is_whole
        if is_kept_alive:
            conn.begin_request(unreader.take_buffered())
        return is_kept_alive

    def _finish_answer(self, threads: RequestThreads, conn: PoolConnection, answer: Future[bool]) -> None:
        """Go on with a connection whose request a thread has answered."""
        threads.unanswered -= 1
        conn.is_kept_alive = not answer.cancelled() and not answer.exception() and answer.result()
        if conn.sock.fileno() < 0:  # closed amid a stream that failed
            self._forget(conn)
        elif conn.sock.unsent:
            self._wait(conn, "answer")
        else:
            self._end_answer(conn)

    def _end_answer(self, conn: PoolConnection) -> None:
        """Wait for the next request, or for the client to close: what it still sends must not reset the
        connection before it has read the answer."""
        if conn.is_kept_alive and conn.request.is_answerable:
            self.enqueue_req(conn)
        elif conn.is_kept_alive:
            self._wait(conn, "head")
        else:
            with contextlib.suppress(OSError):  # the client was faster
                conn.sock.shutdown(socket.SHUT_WR)
            self._wait(conn, "closing")

    def _wait(self, conn: PoolConnection, phase: ClientPhase) -> None:
        """Wait for a client without a thread."""
        conn.phase = phase
        conn.phase_ends_at = time.monotonic() + MAX_TRANSFER_S
        self._restart_timeout(conn)
        self.keepalived_conns.append(conn)
        events = selectors.EVENT_WRITE if phase == "answer" else selectors.EVENT_READ
        self.poller.register(conn.sock, events, partial(self._go_on, conn))
        self._count_buffered_bytes(conn)

    def _restart_timeout(self, conn: PoolConnection) -> None:
        waits_s = {"head": self.cfg.keepalive if self.alive else STOP_KEEPALIVE_LINGER, "closing": LINGER_S}
        timeout_s = waits_s.get(conn.phase, self.limits.client_timeout_s)
        conn.timeout = min(time.monotonic() + timeout_s, conn.phase_ends_at)

    def _go_on(self, conn: PoolConnection, client: object) -> None:
        """Handle what a client did for which a connection waits."""
        steps: dict[ClientPhase, Callable[[PoolConnection], None]] = {
            "head": self._receive,
            "body": self._receive,
            "answer": self._send,
            "closing": self._discard,
        }
        try:
            steps[conn.phase](conn)
        except BlockingIOError:  # what was there is gone again
            return
        except OSError:
            self._drop(conn)

    def _receive(self, conn: PoolConnection) -> None:
        chunk = conn.sock.receive()
        conn.request.add(chunk)
        if not chunk and not conn.request.data:
            self._drop(conn)
        elif not chunk or conn.request.is_answerable:
            self._stop_waiting(conn)
            self.enqueue_req(conn)
        elif conn.request.has_head:
            if conn.request.awaits_continue:
                conn.request.awaits_continue = False
                conn.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n", socket.MSG_DONTWAIT)
            conn.phase = "body"
            self._restart_timeout(conn)
        self._count_buffered_bytes(conn)

    def _send(self, conn: PoolConnection) -> None:
        conn.sock.send_unsent()
        self._count_buffered_bytes(conn)
        if conn.sock.unsent:
            self._restart_timeout(conn)
        else:
            self._stop_waiting(conn)
            self._end_answer(conn)

    def _discard(self, conn: PoolConnection) -> None:
        if conn.sock.receive():
            conn.timeout = min(time.monotonic() + LINGER_S, conn.phase_ends_at)
        else:
            self._drop(conn)

    def _stop_waiting(self, conn: PoolConnection) -> None:
        self.poller.unregister(conn.sock)
        self.keepalived_conns.remove(conn)

    def _drop(self, conn: PoolConnection) -> None:
        """Close a connection that waits."""
        self._stop_waiting(conn)
        self._forget(conn)
        conn.close()

    def _forget(self, conn: PoolConnection) -> None:
        self.buffered_bytes -= conn.counted_bytes
        self.nr_conns -= 1

    def _count_buffered_bytes(self, conn: PoolConnection) -> None:
        """Keep the memory of all connections within its budget: those that have waited longest give way."""
        self.buffered_bytes += conn.buffered_bytes - conn.counted_bytes
        conn.counted_bytes = conn.buffered_bytes
        while self.buffered_bytes > self.limits.max_buffered_bytes:
            waiting = (each for each in self.keepalived_conns if each.counted_bytes)
            if (oldest := next(waiting, None)) is None:
                break
            self._drop(oldest)

    def murder_keepalived(self, force: bool = False) -> None:
        """End the wait for clients that are too slow; half a body is answered for what it is."""
        now = time.monotonic()
        if now < self.checks_timeouts_at and not force:
            return
        self.checks_timeouts_at = now + TIMEOUT_CHECK_S
        for conn in [each for each in self.keepalived_conns if force or each.timeout <= now]:
            if conn.phase == "body" and not force:
                self._stop_waiting(conn)
                self.enqueue_req(conn)
            else:
                self._drop(conn)

    def _cap_keepalive(self, deadline: float) -> None:
        """Close connections without a request soon; a worker that ends finishes what was begun."""
        for conn in self.keepalived_conns:
            if conn.phase == "head":
                conn.timeout = min(conn.timeout, deadline)

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer a request that is no HTTP, or an error of the server, with a problem document."""
        request_id = token_hex(8)
        if isinstance(exc, ParseException) and not isinstance(exc, SERVER_FAULTS):
            problem = ProblemError("bad-request", _parse_error_text(exc))
        else:
            log.error("request %s failed", request_id, exc_info=exc)
            problem = ProblemError("internal-error", "The server could not answer.")
        with contextlib.suppress(OSError):
            _send_problem(client, problem, request_id)


def _send_problem(client: socket.socket, problem: ProblemError, request_id: str) -> None:
    answer = build_problem_response(problem, request_id)
    answer.headers["Connection"] = "close"
    head = f"HTTP/1.1 {answer.status}\r\n{answer.headers}".encode("latin-1")
    client.sendall(head + answer.get_data())


def _parse_error_text(error: ParseException) -> str:
    if isinstance(error, LimitRequestLine):
        return "The address is too long."
    if isinstance(error, LimitRequestHeaders):
        return "The headers are too long or too many."
    return f"{str(error)[:200]}."
