"""Ports of this machine that nobody else is given while they are held."""

from __future__ import annotations

import socket


def reserve_port() -> socket.socket:
    """A bound socket that does not listen, so that a server can: servers take an address again that is only
    bound.

    A port that is merely free now may be given to any client before the server listens; and a client that
    calls there in vain may be given that very port, and then speaks to itself.
    """
    item = socket.socket()
    item.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    item.bind(("127.0.0.1", 0))
    return item


def get_port_number(held: socket.socket) -> int:
    number: int = held.getsockname()[1]
    return number
