"""Waiting for what other processes and threads do: as long as a busy machine may take, and no longer than
it takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

WITHIN_S = 120.0


def until(holds: Callable[[], object], within_s: float = WITHIN_S) -> bool:
    """Whether it comes to hold; looked at again and again."""
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def has_ended(pid: int) -> bool:
    """Whether a process comes to its end; one that waits to be reaped has."""
    return until(lambda: _state(pid) in ("", "Z"))


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
