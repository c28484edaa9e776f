"""The keeper of turns: of the processes that are measured beside each other, it lets one run at a time."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter, deque
from collections.abc import Sequence

AGREE_MESSAGE, NUMBER_SIZE = b"n", 8
"""How a process asks for the number that all of them are to use, and how long that number is."""


class TurnScheduler:
    """Hands the turn around: whoever has it says when it waits again, and then the next one gets it.

    The order stays the same, so that every turn comes after somebody else's and finds caches as full of strangers.
    Nobody has the first turn before all of them wait for it: no start-up disturbs a measurement. A process that ends
    hangs up and is left out from then on.
    """

    def __init__(self, participants: Sequence[socket.socket]) -> None:
        self._queue = deque(participants)
        self._waiting: set[socket.socket] = set()
        self._agreed_numbers: list[bytes] = []
        self._request_counts = Counter[socket.socket]()

    @property
    def participants(self) -> Sequence[socket.socket]:
        return tuple(self._queue)

    def handle_message(self, participant: socket.socket) -> None:
        """Take what a player said, and give the turn to the next one if nobody has it now."""
        said = _receive(participant, 1)
        if said == AGREE_MESSAGE:
            self._answer_number(participant, _receive(participant, NUMBER_SIZE))
        elif said:
            self._waiting.add(participant)
        else:
            self._queue.remove(participant)
            self._waiting.discard(participant)
        if self._queue and len(self._waiting) == len(self._queue):
            self._grant_turn(self._queue[0])
            self._queue.rotate(-1)

    def _answer_number(self, participant: socket.socket, number: bytes) -> None:
        """Whoever asks first decides for all who ask as often."""
        if self._request_counts[participant] == len(self._agreed_numbers):
            self._agreed_numbers.append(number)
        _send(participant, self._agreed_numbers[self._request_counts[participant]])
        self._request_counts[participant] += 1

    def _grant_turn(self, participant: socket.socket) -> None:
        self._waiting.discard(participant)
        _send(participant, b"t")


def _send(participant: socket.socket, message: bytes) -> None:
    with contextlib.suppress(OSError):  # it has ended: it is left out as soon as its hanging up is heard
        participant.sendall(message)


def _receive(participant: socket.socket, size: int) -> bytes:
    try:
        return participant.recv(size, socket.MSG_WAITALL)
    except OSError:
        return b""
