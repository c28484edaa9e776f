"""One process: the dashboard and the API on waitress until a signal ends it."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from secrets import token_hex
from types import FrameType
from typing import Any

from waitress.channel import HTTPChannel
from waitress.server import BaseWSGIServer, create_server
from waitress.task import ErrorTask
from waitress.wasyncore import close_all, dispatcher, loop

from perfci.config import Secrets, Settings
from perfci.service.gc_tuning import tune_gc
from perfci.store import Store
from perfci_web.api.problems import KIND_BY_STATUS, ProblemError, problem_response
from perfci_web.api.serve_request import DRAIN_FACTOR, MIB
from perfci_web.application import create_app
from perfci_web.listen_socket import open_listener, server_url
from perfci_web.write_access import is_loopback, settings_for_host

GRACEFUL_TIMEOUT_S = 20.0
"""How long requests that were begun may take once the end was asked for; orchestrators kill after 30 s."""

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve(
    store: Store,
    host: str,
    port: int,
    *,
    read_only: bool = True,
    settings: Settings | None = None,
    secrets: Secrets | None = None,
    on_tick: Callable[[], None] = lambda: None,
    on_ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then return; ``port`` 0 picks a free one, ``on_ready`` learns the
    address.

    A server on a loopback address answers only requests that name it so, whatever name a foreign page
    points here. Once it is to end it takes no new connection, and answers what was begun.
    """
    logging.getLogger("waitress.queue").setLevel(
        logging.ERROR
    )  # a request that waits for a moment is no warning
    settings = settings_for_host(host, settings or Settings())
    app = create_app(
        store,
        read_only=read_only,
        loopback_only=is_loopback(host),
        settings=settings,
        secrets=secrets,
    )
    with open_listener(host, port) as listener, tune_gc():
        connections: dict[int, Any] = {}
        server = create_server(
            app,
            map=connections,
            sockets=[listener],
            threads=settings.server.threads,
            ident="perfci",
            max_request_body_size=DRAIN_FACTOR
            * int(settings.server.max_body_mb * MIB),  # beyond it hangs up amid the body
            clear_untrusted_proxy_headers=False,  # the application does that, and wants to know of them
            connection_limit=1000,
        )
        server.channel_class = Channel
        try:
            with _watch_signals(server.pull_trigger) as is_ending:
                on_ready(server_url(host, listener))
                while not is_ending():
                    on_tick()
                    loop(server.adj.asyncore_loop_timeout, server.adj.asyncore_use_poll, connections, count=1)
            _finish(server, connections)
        finally:
            server.task_dispatcher.shutdown()
            close_all(connections)
            app.extensions["perfci"].group_commit.close()


class Refusal(ErrorTask):  # type: ignore[misc]
    """What waitress itself refuses, told like everything the API refuses."""

    def execute(self) -> None:
        fault = self.request.error
        answer = problem_response(
            ProblemError(KIND_BY_STATUS.get(fault.code, "bad-request"), f"{fault.body}."), token_hex(8)
        )
        self.status = answer.status
        self.response_headers.extend(answer.headers.items())
        self.set_close_on_finish()
        body = answer.get_data()
        self.content_length = len(body)
        self.write(body)


class Channel(HTTPChannel):  # type: ignore[misc]
    """One connection."""

    error_task_class = Refusal


def _finish(server: BaseWSGIServer, connections: dict[int, Any]) -> None:
    """Answer what was begun; whoever connects from now on is refused, and finds another server or comes
    back.
    """
    dispatcher.close(server)
    deadline = time.monotonic() + GRACEFUL_TIMEOUT_S
    while (
        any(_is_busy(channel) for channel in server.active_channels.values()) and time.monotonic() < deadline
    ):
        loop(0.1, server.adj.asyncore_use_poll, connections, count=1)


def _is_busy(channel: HTTPChannel) -> bool:
    return bool(channel.requests or channel.request or channel.total_outbufs_len)


@contextlib.contextmanager
def _watch_signals(wake: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Whether a signal asked for the end, told between two steps of the loop; the signals are given back
    afterwards.

    A signal that raised where it struck would lose a connection that was just being accepted or closed, and
    its socket.
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
