"""Serving the dashboard on waitress until a signal ends it."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from waitress.server import create_server
from waitress.wasyncore import close_all, loop

from perfci.config import HistoryTable
from perfci.model import PerfciError
from perfci.store import Store
from perfci.verdicts.policy import Policy
from perfci_web.application import create_app
from perfci_web.guards import is_loopback

THREADS = 8
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    store: Store,
    host: str,
    port: int,
    *,
    read_only: bool = True,
    policy: Policy | None = None,
    history: HistoryTable | None = None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then return; ``port`` 0 picks a free one, ``on_ready`` learns the address.

    A server on a loopback address answers only requests that name it so, whatever name a foreign page points here.
    """
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # a request that waits for a moment is no warning
    app = create_app(store, read_only=read_only, loopback_only=is_loopback(host), policy=policy, history=history)
    with _listening(host, port) as listener:
        connections: dict[int, Any] = {}
        server = create_server(app, map=connections, sockets=[listener], threads=THREADS, ident="perfci")
        try:
            with _told_by_signals(server.pull_trigger) as told:
                on_ready(_url(host, listener))
                while not told():
                    loop(server.adj.asyncore_loop_timeout, server.adj.asyncore_use_poll, connections, count=1)
        finally:
            server.task_dispatcher.shutdown()
            close_all(connections)


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """One socket for one name: waitress alone would open a port per address of ``localhost``, each its own."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise PerfciError(f"Cannot serve on {host}: {_reason(error)}. Try --host 127.0.0.1.") from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            raise PerfciError(
                f"Cannot serve on {host} port {port}: {_reason(error)}. Give another --port; 0 picks a free one."
            ) from error
        yield listener


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).rstrip(".").lower()


def _url(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/"


@contextlib.contextmanager
def _told_by_signals(wake: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Whether a signal asked for the end, told between two steps of the loop; the signals are given back afterwards.

    A signal that raised where it struck would lose a connection that was just being accepted or closed, and its socket.
    """
    ended = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        ended = True
        wake()

    if threading.current_thread() is not threading.main_thread():
        yield lambda: ended
        return
    before: dict[int, Any] = {number: signal.signal(number, end) for number in ENDING_SIGNALS}
    try:
        yield lambda: ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
