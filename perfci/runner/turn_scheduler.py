"""Turn scheduler: of the processes that are measured beside each other, let one run at a time."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter, deque
from collections.abc import Sequence

AGREE_MESSAGE, NUMBER_SIZE = b"n", 8
"""Message of a process that requests the number all of them use, and the bytes of that number.

The harness has its own copy (``harness/turn_slots.py``), since it may not import perfci.
"""


class TurnScheduler:
    """Round-robin scheduler: a process reports when it waits again, and then the next one gets the turn.

    The order is fixed, so that every turn follows one of another process and finds equally cold caches. The
    first turn is granted once all of them wait for it: no start-up disturbs a measurement. A process that
    ends hangs up and is left out from then on.
    """

    def __init__(self, participants: Sequence[socket.socket]) -> None:
        self._queue = deque(participants)
        self._waiting: set[socket.socket] = set()
        self._agreed_numbers: list[bytes] = []
        self._request_counts = Counter[socket.socket]()

    @property
    def live_participants(self) -> Sequence[socket.socket]:
        """Processes that have not ended."""
        return tuple(self._queue)

    def handle_message_and_grant_turn(self, participant: socket.socket) -> None:
        """Handle one message of a process, and grant the next turn once all of them wait."""
        message = _receive(participant, 1)
        if message == AGREE_MESSAGE:
            self._answer_number(participant, _receive(participant, NUMBER_SIZE))
        elif message:
            self._waiting.add(participant)
        else:
            self._queue.remove(participant)
            self._waiting.discard(participant)
        if self._queue and len(self._waiting) == len(self._queue):
            self._grant_turn(self._queue[0])
            self._queue.rotate(-1)

    def _answer_number(self, participant: socket.socket, number: bytes) -> None:
        """Answer the k-th request of every process with the number of the first k-th request."""
        if self._request_counts[participant] == len(self._agreed_numbers):
            self._agreed_numbers.append(number)
        _send(participant, self._agreed_numbers[self._request_counts[participant]])
        self._request_counts[participant] += 1

    def _grant_turn(self, participant: socket.socket) -> None:
        self._waiting.discard(participant)
        _send(participant, b"t")


def _send(participant: socket.socket, message: bytes) -> None:
    with contextlib.suppress(OSError):  # it has ended; its hang-up is handled next
        participant.sendall(message)


def _receive(participant: socket.socket, size: int) -> bytes:
    try:
        return participant.recv(size, socket.MSG_WAITALL)
    except OSError:  # a process that ended with data unread resets the connection
        return b""
