"""Take turns with the cells that are measured beside this one: one of them runs, the others wait.

Two processes that are measured one after the other see different machine drift; two that take turns every
few milliseconds, on one core, see the same. They never run at once, so they do not disturb each other. A
process that waits reports so on its socket, and the scheduler of the runner answers when it may go on.
"""

from __future__ import annotations

import mmap
import os
import resource
import socket
import struct
import time

from .process_control import has_child

THREAD_CHECK_S = 0.05
"""A process that has computed for so long has shown how many threads it uses: half of asv's warm-up."""

SINGLE_THREAD_SHARE = 0.95

WAIT_PAGE = struct.Struct("dd")

WAIT_MESSAGE, AGREE_MESSAGE = b"w", b"n"
"""Messages of a cell to the scheduler (``perfci.runner.turn_scheduler``); a number follows the second."""

NUMBER_FORMAT = struct.Struct("<q")


class TurnSlot:
    """A cell's place among those that take turns, and a page that shows its supervisor how long it waited.

    The wall clock that a cell has to end by stands still while others have their turn. Both processes see
    how long it waited on a page they share: the seconds until its last turn, and since when it waits now (0
    while it runs).
    """

    def __init__(self, scheduler_fd: int, page_fd: int | None = None) -> None:
        self._scheduler = socket.socket(fileno=scheduler_fd)
        self._file = os.memfd_create("waited") if page_fd is None else page_fd
        os.ftruncate(self._file, WAIT_PAGE.size)
        self._page = mmap.mmap(self._file, WAIT_PAGE.size)

    @property
    def inheritable_handles(self) -> tuple[int, int]:
        """What a process that inherits nothing else needs to use the slot."""
        return self._scheduler.fileno(), self._file

    def wait_for_turn(self) -> None:
        """Report that this process waits, and wait for the next turn."""
        before, since = self.waited_s(), time.monotonic()
        WAIT_PAGE.pack_into(self._page, 0, before, since)
        self._scheduler.sendall(WAIT_MESSAGE)
        if not self._scheduler.recv(1):
            raise SystemExit("the turn scheduler closed the connection")
        WAIT_PAGE.pack_into(self._page, 0, before + time.monotonic() - since, 0.0)

    def agree_on_number(self, number: int) -> int:
        """Return the number that all of them use: that of the first request."""
        self._scheduler.sendall(AGREE_MESSAGE + NUMBER_FORMAT.pack(number))
        answer = self._scheduler.recv(NUMBER_FORMAT.size, socket.MSG_WAITALL)
        if len(answer) < NUMBER_FORMAT.size:
            raise SystemExit("the turn scheduler closed the connection")
        return int(NUMBER_FORMAT.unpack(answer)[0])

    def waited_s(self) -> float:
        """Seconds that were spent waiting so far."""
        before, since = WAIT_PAGE.unpack_from(self._page)
        return float(before + (time.monotonic() - since if since else 0.0))

    def close(self) -> None:
        """Hang up, so that the scheduler leaves this cell out."""
        self._scheduler.close()
        self._page.close()
        os.close(self._file)


class ProcessTurns:
    """Turns of this process; a process that is measured by itself never waits."""

    def __init__(self) -> None:
        self._slot: TurnSlot | None = None
        self._core: int | None = None
        self.was_offered = False

    def take_slot(self, slot: TurnSlot, core: int) -> None:
        """Take turns from now on, and wait for the first one."""
        self._slot, self._core = slot, core
        slot.wait_for_turn()

    @property
    def takes_turns(self) -> bool:
        return self._slot is not None

    def offer_turn(self) -> None:
        """Between two samples: let the others take one of theirs."""
        if self._slot is not None:
            self.was_offered = True
            # Decided once, and not at the start: threads show only when they have computed.
            if self._core is not None and time.process_time() >= THREAD_CHECK_S:
                move_to_shared_core(self._core)
                self._core = None
            self._slot.wait_for_turn()

    def agree_on_number(self, number: int) -> int:
        """Use the same number as those that are measured beside this one, asked in the same order."""
        return number if self._slot is None else self._slot.agree_on_number(number)


def move_to_shared_core(core: int) -> None:
    """Move to the shared core, unless this process computes on several threads or in children.

    Two cores are seldom equally fast, least of all on virtual machines. What the process has started by now
    keeps its cores: only the calling thread moves.
    """
    single_threaded = time.thread_time() >= SINGLE_THREAD_SHARE * time.process_time()
    if single_threaded and not has_child() and not resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:
        os.sched_setaffinity(0, {core})


process_turns = ProcessTurns()
