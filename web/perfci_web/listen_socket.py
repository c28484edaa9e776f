"""The listening socket and the URL of the server; an error is one sentence."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from perfci.model import PerfciError

BACKLOG = 512
"""Connections the kernel queues while all threads are busy."""


@contextlib.contextmanager
def open_listener(host: str, port: int) -> Iterator[socket.socket]:
    """Open one socket for a host name, also where ``localhost`` has several addresses."""
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


def server_url(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(
        host, f"[{host}]" if ":" in host else host
    )
    return f"http://{shown}:{port}/"


def _error_text(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).rstrip(".").lower()
