"""Messages of the harness: lines of JSON on its socket, and the report that a cell leaves in a file."""

from __future__ import annotations

import io
import json
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any

JsonMessage = dict[str, Any]
ReportFile = io.BufferedRandom
CellWork = Callable[[ReportFile], None]


def send_message(control: socket.socket, message: JsonMessage) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


def write_report(report: ReportFile, message: JsonMessage) -> None:
    report.seek(0)
    report.truncate()
    report.write(json.dumps(message).encode())
    report.flush()


def parse_report(raw: bytes) -> JsonMessage | None:
    try:
        message = json.loads(raw)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def build_outcome_without_result(status: str, reason: str) -> JsonMessage:
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


def build_module_error(module: str, error: BaseException) -> JsonMessage:
    return {"module": module, "error": last_error_line(error)}


def last_error_line(error: BaseException) -> str:
    lines = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
