"""End processes: wait by the wall clock, kill groups, adopt and end orphans."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Collection

from .captured_output import flush_output

# Of <linux/prctl.h>; see prctl(2).
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def call_then_exit_process(work: Callable[[], None]) -> None:
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


def wait_for_exit_or_hangup(
    pid: int, deadline: float, connection: socket.socket | None = None
) -> tuple[bool, int]:
    """Wait for a child by the wall clock. When ``connection`` hangs up, end everything and leave."""
    # A pidfd becomes readable when the process ends (pidfd_open(2)), so that one poll sees both ends.
    poll = select.poll()
    handle = os.pidfd_open(pid)
    try:
        poll.register(handle, select.POLLIN)
        if connection is not None:
            poll.register(connection.fileno(), select.POLLRDHUP | select.POLLHUP)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return False, 0
            ready = dict(poll.poll(min(left, 3600.0) * 1000 + 1))
            if handle in ready:
                return True, wait_for_exit_status(pid)
            if ready:
                kill_process_group(pid)
                kill_descendants()
                os._exit(0)
    finally:
        os.close(handle)


def wait_for_exit_status(pid: int) -> int:
    """Wait for a child and return its exit status."""
    return os.waitpid(pid, 0)[1]


def kill_process_group(pid: int) -> None:
    """Kill a child and its process group; what is already gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)  # it may not have made its own group yet


def kill_descendants() -> None:
    """Kill all descendants: as subreaper this process inherits orphans of any group or session."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for child in list_children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.001)


def has_child() -> bool:
    """Whether this process has a child at all; cheap, and it reaps nothing."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def list_leftover_processes(grace_s: float, ignored_pids: Collection[int] = ()) -> list[int]:
    """What is still running below this process after a grace, except ``ignored_pids``.

    As subreaper this process inherits whatever a child left, so the trackers and workers that end by
    themselves when they lose their parent are waited for here.
    """
    deadline = time.monotonic() + grace_s
    while has_child():
        running = [pid for pid in list_children() if pid not in ignored_pids and not has_ended(pid)]
        if not running or time.monotonic() > deadline:
            return running
        time.sleep(0.005)
    return []


def has_ended(pid: int) -> bool:
    """Whether a child has ended and only waits to be reaped."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def describe_process(pid: int) -> str:
    """Describe a process by its command line, unless that is the harness it was forked from."""
    command = read_command_line(pid)
    return "a fork of the benchmark" if os.path.dirname(os.path.abspath(__file__)) in command else command


def read_command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def terminate_daemonic_children() -> None:
    """Terminate the daemonic children of multiprocessing (workers of a DataLoader or a Pool).

    An interpreter that exits would do so; a cell exits without the exit handlers it shares with its parent.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    for child in multiprocessing.active_children() if multiprocessing is not None else ():
        if child.daemon:
            child.terminate()


def list_children() -> list[int]:
    """Process ids of the children of this process."""
    me = str(os.getpid())
    children = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as file:
                # proc_pid_stat(5): the name stands in brackets and may hold brackets and spaces itself.
                if file.read().rpartition(")")[2].split()[1] == me:
                    children.append(int(entry))
    return children


def adopt_orphans() -> None:
    """Become the subreaper: orphans below this process become its children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before the request
        os._exit(1)
