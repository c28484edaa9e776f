"""Locks of a machine and of a repository: measurements that overlap would measure each other."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from perfci.model import PerfciError

RETRY_S = 0.5
REMIND_S = 60.0
"""Seconds between two reminders that a measurement has not begun: the first one scrolls out of sight."""


@contextmanager
def machine_lock(
    path: Path, *, owner: str, wait: bool = True, on_wait: Callable[[str], None] = lambda _: None
) -> Iterator[None]:
    """Hold the machine's lock; the kernel releases it when the holder dies, so no stale lock can remain."""
    handle = _open_lock(path)
    try:
        if not _try_lock(handle):
            holder = _describe_holder(handle)
            if not wait:
                raise PerfciError(
                    f"this machine is already being measured by {holder}; wait for it, or drop --no-wait"
                )
            on_wait(f"WAITING for {holder}, so that two measurements do not disturb each other")
            waited_s = 0.0
            while not _try_lock(handle):
                time.sleep(RETRY_S)
                waited_s += RETRY_S
                if waited_s % REMIND_S == 0:
                    on_wait(f"still waiting for {holder}, {waited_s / 60:.0f} min so far")
        # The note is for the message of others only; the lock itself is the kernel's.
        os.ftruncate(handle, 0)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "owner": owner, "since": since}).encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keep two runs in one repository from making the same clone, tree or build at once."""
    handle = _open_lock(folder / "lock")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open_lock(path: Path) -> int:
    try:
        # In a folder that everybody may write a link could make us truncate another's file: O_NOFOLLOW.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise PerfciError(
            f"the machine lock {path} cannot be opened ({error.strerror}); set PERFCI_LOCK to a path "
            "that every user of this machine may write"
        ) from None
    return handle


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _describe_holder(handle: int) -> str:
    try:
        note = json.loads(os.pread(handle, 4096, 0))
        return f"{note['owner']} (process {note['pid']}, since {note['since']})"
    except (ValueError, KeyError, TypeError):
        return "another perfci run"
