"""Instructions that a function retires, read from the processor through Linux's ``perf_event_open(2)``.

Of all that is counted here the one number that does not repeat exactly: pytorch's own gate on it sees 0.1 %
between runs (pytorch#198079).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from perfci.bench.readings import Absent

# Numbers of perf_event_open(2) and <linux/perf_event.h>; glibc has no function for this system call.
SYSCALLS = {"x86_64": 298, "aarch64": 241}
ATTRIBUTES = "=IIQQQQQIIQ"  # perf_event_attr as it was first published: type, size, config, ..., flags, ...
PERF_TYPE_HARDWARE, PERF_COUNT_INSTRUCTIONS = 0, 1
PARANOID_FILE = Path("/proc/sys/kernel/perf_event_paranoid")
READ_TIMES = 0b11  # read the time the counter was wanted, and the time it ran
DISABLED, INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
ENABLE, DISABLE, RESET = 0x2400, 0x2401, 0x2403  # PERF_EVENT_IOC_*, requests of ioctl(2)
COUNTED_CALLS = 3


def count_instructions(function: Callable[[], object]) -> int | Absent:
    """Count the instructions of a call in user space, the least of three; earlier threads do not count.

    Absent with the reason where the system, its settings or its (virtual) processor have no such counter,
    and where the counter had to be shared meanwhile.
    """
    try:
        counter = _open_counter(PERF_TYPE_HARDWARE, PERF_COUNT_INSTRUCTIONS)
    except OSError as error:
        return Absent(_missing_reason(error))
    try:
        readings = [_count_call(counter, function) for _ in range(COUNTED_CALLS)]
    finally:
        os.close(counter)
    if not all(readings):
        return Absent("the processor's instruction counter was shared with another process")
    return min(readings)


def _open_counter(kind: int, event: int) -> int:
    """Open a stopped counter of this process; threads started later count, the kernel does not."""
    number = SYSCALLS.get(platform.machine())
    if sys.platform != "linux" or number is None:
        raise OSError(errno.ENOSYS, f"perf_event_open is not known on {sys.platform} {platform.machine()}")
    size, flags = struct.calcsize(ATTRIBUTES), DISABLED | INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
    attributes = struct.pack(ATTRIBUTES, kind, size, event, 0, 0, READ_TIMES, flags, 0, 0, 0)
    # Of this process (0), on any core (-1), in no group of counters (-1), without flags.
    counter = ctypes.CDLL(None, use_errno=True).syscall(number, attributes, 0, -1, -1, 0)
    if counter < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(counter)


def _count_call(counter: int, function: Callable[[], object]) -> int:
    """The count, or 0 where the counter did not run all the time."""
    fcntl.ioctl(counter, RESET, 0)
    # A reset leaves the two times as they are, hence their values before.
    _, wanted_before, ran_before = struct.unpack("=QQQ", os.read(counter, 24))
    fcntl.ioctl(counter, ENABLE, 0)
    function()
    fcntl.ioctl(counter, DISABLE, 0)
    count, wanted, ran = struct.unpack("=QQQ", os.read(counter, 24))
    return int(count) if wanted - wanted_before == ran - ran_before else 0


def _missing_reason(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "this processor, or the virtual machine around it, offers no counter of instructions"
    if error.errno in (errno.EACCES, errno.EPERM):
        setting = PARANOID_FILE.read_text().strip() if PARANOID_FILE.exists() else "unknown"
        return (
            "this process may not count instructions: kernel.perf_event_paranoid is "
            f"{setting}, 2 or less is needed"
        )
    return f"instructions cannot be counted: {error.strerror}"
