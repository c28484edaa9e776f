"""Processes that end: waiting by the wall clock, killing groups, adopting and ending orphans."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable

from .messages import flush_output

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def run_as_child(work: Callable[[], None]) -> None:
    """Run in a forked child and leave without the parent's exit handlers."""
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        flush_output()
        os._exit(code)


def wait_until(pid: int, deadline: float, watch: socket.socket | None = None) -> tuple[bool, int]:
    """Wait for a child by the wall clock. When ``watch`` hangs up, end everything and leave."""
    poll = select.poll()
    handle = os.pidfd_open(pid)
    try:
        poll.register(handle, select.POLLIN)
        if watch is not None:
            poll.register(watch.fileno(), select.POLLRDHUP | select.POLLHUP)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return False, 0
            ready = dict(poll.poll(min(left, 3600.0) * 1000 + 1))
            if handle in ready:
                return True, reap(pid)
            if ready:
                end_group(pid)
                sweep()
                os._exit(0)
    finally:
        os.close(handle)


def reap(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def end_group(pid: int) -> None:
    """Kill a child and its process group; what is already gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def sweep() -> None:
    """Kill what is left below this process: as subreaper it inherits every orphan, whatever its group or session."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for child in children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.001)


def children() -> list[int]:
    me = str(os.getpid())
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                if file.read().rpartition(")")[2].split()[1] == me:
                    found.append(int(entry))
    return found


def adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before the request
        os._exit(1)
