"""Fork server: imports what commits share and forks workers, which fork a commit parent per visit."""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import socket
import sys
import time

from .commit_visit import run_visit
from .messages import JsonMessage, send_message
from .process_control import (
    adopt_orphans,
    call_then_exit_process,
    die_with_parent,
    has_child,
    kill_descendants,
    kill_process_group,
    wait_for_exit_or_hangup,
    wait_for_exit_status,
)
from .suite_discovery import try_import

MADV_COLLAPSE = 25  # of <asm-generic/mman-common.h>, which Python's mmap does not name
HUGE_PAGE = 2 << 20


def run_fork_server(control: socket.socket) -> None:
    """Fork a worker for every socket that is received, until the other side hangs up.

    Commits that are measured beside each other have a worker each. All workers are forks of one process, so
    that they share its memory layout and hash seed: a difference there would pass for one between the
    commits.
    """
    with control.makefile("r", encoding="utf-8") as lines:
        hello = json.loads(lines.readline())
    die_with_parent(hello["parent"])
    send_message(control, preload_and_describe_environment(hello["preload"]))
    me = os.getpid()
    while descriptors := socket.recv_fds(control, 1, 1)[1]:
        with socket.socket(fileno=descriptors[0]) as worker_socket:
            if os.fork() == 0:
                control.close()
                call_then_exit_process(functools.partial(worker_main, worker_socket, me))
    while has_child():
        os.wait()


def worker_main(control: socket.socket, parent: int) -> None:
    """Run visits until the other side hangs up; nothing that was started outlives this loop."""
    adopt_orphans()
    die_with_parent(parent)
    lines = control.makefile("r", encoding="utf-8")
    # An empty line was meant for a commit parent that ended before it was read.
    for line in filter(str.strip, lines):
        request = json.loads(line)
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            call_then_exit_process(functools.partial(run_visit, request, control, me))
        ended, status = wait_for_exit_or_hangup(
            pid, time.monotonic() + request["visit_timeout_s"], connection=control
        )
        if not ended:
            kill_process_group(pid)
            status = wait_for_exit_status(pid)
        kill_descendants()
        send_message(control, {"event": "visit_ended", "timed_out": not ended, "status": status})


def preload_and_describe_environment(preload: list[str]) -> JsonMessage:
    """Import what every commit shares and describe this environment."""
    gc.disable()  # a fifth of the time of importing torch went to looking for garbage
    for name in preload:
        try_import(name)  # a module that does not import fails in the cells that need it
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    import asv_runner.discovery  # noqa: F401  (its import walks every installed distribution: once is enough)

    gc.enable()
    gc.collect()
    gc.freeze()  # children must not copy pages by counting references in them
    speed_up_forks_with_huge_pages()
    return {
        "event": "hello",
        "python": sys.version.split()[0],
        "torch": getattr(torch, "__version__", ""),
    }


def speed_up_forks_with_huge_pages() -> None:
    """Back the heap that torch's import left with huge pages: a fork then copies a third of the page tables.

    MADV_COLLAPSE needs Linux 6.1; where it is refused, forks are only slower (13 ms instead of 4 ms
    measured).
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps") as maps:
        regions = [line.split() for line in maps]
    for region in regions:
        # proc_pid_maps(5): a line without a sixth field is anonymous memory.
        private = region[1] == "rw-p" and (len(region) == 5 or region[5] == "[heap]")
        start, end = (int(address, 16) for address in region[0].split("-"))
        start, end = -(-start // HUGE_PAGE) * HUGE_PAGE, end // HUGE_PAGE * HUGE_PAGE
        if private and start < end:
            madvise(start, end - start, MADV_COLLAPSE)
