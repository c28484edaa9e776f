"""Messages on the socket, reports of a cell, and captured output."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

JsonMessage = dict[str, Any]
ReportFile = io.BufferedRandom
CellWork = Callable[[ReportFile], None]

STDERR_TAIL = 4000  # characters of output kept with a process


def send(control: socket.socket, message: JsonMessage) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def write_report(report: ReportFile, message: JsonMessage) -> None:
    report.seek(0)
    report.truncate()
    report.write(json.dumps(message).encode())
    report.flush()


def read_report(raw: bytes) -> JsonMessage | None:
    try:
        message = json.loads(raw)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def outcome_without_result(status: str, reason: str) -> JsonMessage:
    return {
        "status": status,
        "reason": reason,
        "metrics": [],
        "flags": [],
        "stderr_tail": "",
        "exit_code": None,
        "interleaved": False,
        "started_at": time.time(),
        "duration_s": 0.0,
        "work_s": 0.0,
    }


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


def read_tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - STDERR_TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def module_error(module: str, error: BaseException) -> JsonMessage:
    return {"module": module, "error": last_error_line(error)}


def last_error_line(error: BaseException) -> str:
    lines = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
