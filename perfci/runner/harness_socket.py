"""A connection to a process of a measured environment: its messages, and its end."""

from __future__ import annotations

import contextlib
import json
import select
import socket
from typing import Any


def close_connection(connection: socket.socket) -> None:
    """Shut a connection down for both sides, even where other processes hold a copy of the socket."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class JsonLineReader:
    """Messages from a socket, one line of JSON each; reading stays interruptible by Ctrl-C."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    @property
    def has_message(self) -> bool:
        """Whether a whole message was received already."""
        return b"\n" in self._rest

    def read_message(self) -> dict[str, Any] | None:
        """Read the next message; None where the other side has hung up."""
        while b"\n" not in self._rest:
            select.select([self._connection], [], [])
            piece = self._connection.recv(1 << 16)
            if not piece:
                return None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message
