"""The keeper of turns: of the processes that are measured beside each other, it lets one run at a time."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter, deque
from collections.abc import Sequence

AGREE, NUMBER_SIZE = b"n", 8
"""How a process asks for the number that all of them are to use, and how long that number is."""


class TurnKeeper:
    """Hands the turn around: whoever has it says when it waits again, and then the next one gets it.

    The order stays the same, so that every turn comes after somebody else's and finds caches as full of strangers.
    Nobody has the first turn before all of them wait for it: no start-up disturbs a measurement. A process that ends
    hangs up and is left out from then on.
    """

    def __init__(self, players: Sequence[socket.socket]) -> None:
        self._circle = deque(players)
        self._waiting: set[socket.socket] = set()
        self._agreed: list[bytes] = []
        self._asked = Counter[socket.socket]()

    @property
    def players(self) -> Sequence[socket.socket]:
        return tuple(self._circle)

    def hear(self, player: socket.socket) -> None:
        """Take what a player said, and give the turn to the next one if nobody has it now."""
        said = _received(player, 1)
        if said == AGREE:
            self._agree(player, _received(player, NUMBER_SIZE))
        elif said:
            self._waiting.add(player)
        else:
            self._circle.remove(player)
            self._waiting.discard(player)
        if self._circle and len(self._waiting) == len(self._circle):
            self._give(self._circle[0])
            self._circle.rotate(-1)

    def _agree(self, player: socket.socket, number: bytes) -> None:
        """Whoever asks first decides for all who ask as often."""
        if self._asked[player] == len(self._agreed):
            self._agreed.append(number)
        _tell(player, self._agreed[self._asked[player]])
        self._asked[player] += 1

    def _give(self, player: socket.socket) -> None:
        self._waiting.discard(player)
        _tell(player, b"t")


def _tell(player: socket.socket, message: bytes) -> None:
    with contextlib.suppress(OSError):  # it has ended: it is left out as soon as its hanging up is heard
        player.sendall(message)


def _received(player: socket.socket, size: int) -> bytes:
    try:
        return player.recv(size, socket.MSG_WAITALL)
    except OSError:
        return b""
