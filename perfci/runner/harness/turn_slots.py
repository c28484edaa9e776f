"""Turns among the cells that are measured beside each other: one of them runs, the others wait.

Two processes that are measured one after the other meet two moods of the machine; two that take turns every few
milliseconds, on one core, meet the same. Neither ever runs while the other does, so they do not disturb each other.
Whoever waits says so on the socket it was given, and the driver, which keeps the turns, answers when it may go on.
"""

from __future__ import annotations

import mmap
import os
import resource
import socket
import struct
import time

from .processes import any_child

WORKED_S = 0.05
"""A process that has computed for so long has shown how many threads it computes on: half of asv's warm-up."""

ON_ONE_THREAD = 0.95

PAGE = struct.Struct("dd")

WAIT, AGREE = b"w", b"n"
"""What a cell says to whoever keeps the turns; with the latter comes a number (``perfci.runner.turn_scheduler``)."""

NUMBER = struct.Struct("<q")


class Seat:
    """A cell's place among those that take turns: where it waits, and what it tells its supervisor of the waiting.

    The wall clock that a cell has to end by stands still while others have their turn. Both processes see how long it
    waited on a page they share: the seconds until its last turn, and since when it waits now (0 while it runs).
    """

    def __init__(self, keeper: int, page: int | None = None) -> None:
        self._keeper = socket.socket(fileno=keeper)
        self._file = os.memfd_create("waited") if page is None else page
        os.ftruncate(self._file, PAGE.size)
        self._page = mmap.mmap(self._file, PAGE.size)

    @property
    def handles(self) -> tuple[int, int]:
        """What a process that inherits nothing else needs to take the seat."""
        return self._keeper.fileno(), self._file

    def wait(self) -> None:
        """Say that the next sample may wait, and wait until it may not."""
        before, since = self.waited(), time.monotonic()
        PAGE.pack_into(self._page, 0, before, since)
        self._keeper.sendall(WAIT)
        if not self._keeper.recv(1):
            raise SystemExit("whoever kept the turns is gone")
        PAGE.pack_into(self._page, 0, before + time.monotonic() - since, 0.0)

    def agree(self, number: int) -> int:
        """The number that all of them use: that of whoever came first."""
        self._keeper.sendall(AGREE + NUMBER.pack(number))
        answer = self._keeper.recv(NUMBER.size, socket.MSG_WAITALL)
        if len(answer) < NUMBER.size:
            raise SystemExit("whoever kept the turns is gone")
        return int(NUMBER.unpack(answer)[0])

    def waited(self) -> float:
        """Seconds that were spent waiting so far."""
        before, since = PAGE.unpack_from(self._page)
        return float(before + (time.monotonic() - since if since else 0.0))

    def leave(self) -> None:
        """Hang up, so that nobody waits for this cell any more."""
        self._keeper.close()
        self._page.close()
        os.close(self._file)


class Turns:
    """The turns of this process; one that is measured by itself has them all."""

    def __init__(self) -> None:
        self._seat: Seat | None = None
        self._core: int | None = None
        self.offered = False

    def join(self, seat: Seat, core: int) -> None:
        """Take turns from now on, and wait for the first one."""
        self._seat, self._core = seat, core
        seat.wait()

    @property
    def shared(self) -> bool:
        return self._seat is not None

    def offer(self) -> None:
        """Between two samples: let the others take one of theirs."""
        if self._seat is not None:
            self.offered = True
            if self._core is not None and time.process_time() >= WORKED_S:
                share_core(self._core)
                self._core = None
            self._seat.wait()

    def agree(self, number: int) -> int:
        """Use the same number as those that are measured beside this one, asked in the same order."""
        return number if self._seat is None else self._seat.agree(number)


def share_core(core: int) -> None:
    """Go on where the others run too, unless this process computes on several threads or has others compute for it.

    Two cores are seldom equally fast, least of all where other machines share them. What the process has started by now
    keeps its cores: only the calling thread moves.
    """
    alone = time.thread_time() >= ON_ONE_THREAD * time.process_time()
    if alone and not any_child() and not resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:
        os.sched_setaffinity(0, {core})


turns = Turns()
