"""Capture what a process prints in a file, and read the end of it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

STDERR_TAIL = 4000  # characters of output kept with a process


@contextlib.contextmanager
def redirect_output(path: str) -> Iterator[None]:
    """Send what an import prints into a file."""
    with open(path, "wb") as file:
        # The descriptors, not sys.stdout: libraries written in C print as well.
        for fd in (1, 2):
            os.dup2(file.fileno(), fd)
    yield
    flush_output()


def flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def read_output_tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - STDERR_TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
