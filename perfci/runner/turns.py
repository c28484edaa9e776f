"""The keeper of turns: of the processes that are measured beside each other, it lets one run at a time."""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Sequence


class TurnKeeper:
    """Hands the turn around: whoever has it says when it waits again, and then the next one gets it.

    The order stays the same, so that every turn comes after somebody else's and finds caches as full of strangers.
    Nobody has the first turn before all of them wait for it: no start-up disturbs a measurement. A process that ends
    hangs up and is left out from then on.
    """

    def __init__(self, players: Sequence[socket.socket]) -> None:
        self._circle = deque(players)
        self._waiting: set[socket.socket] = set()

    @property
    def players(self) -> Sequence[socket.socket]:
        return tuple(self._circle)

    def hear(self, player: socket.socket) -> None:
        """Take what a player said, and give the turn to the next one if nobody has it now."""
        if _said_anything(player):
            self._waiting.add(player)
        else:
            self._circle.remove(player)
            self._waiting.discard(player)
        if self._circle and len(self._waiting) == len(self._circle):
            self._give(self._circle[0])
            self._circle.rotate(-1)

    def _give(self, player: socket.socket) -> None:
        self._waiting.discard(player)
        with contextlib.suppress(OSError):  # it has ended: it is left out as soon as its hanging up is heard
            player.sendall(b"t")


def _said_anything(player: socket.socket) -> bool:
    try:
        return bool(player.recv(1))
    except OSError:
        return False
