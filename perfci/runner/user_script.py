"""Run a user's own script as one measured process, and end it with all that it started."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perfci.model import PerfciError

INTERRUPT_GRACE_S = 10.0
"""How long an interrupted script may take to leave by itself, say to save a checkpoint."""

LAUNCH_CODE = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
os.getppid() == int(sys.argv[1]) or os._exit(1)
os.execv(sys.argv[2], sys.argv[3:])
"""
"""Code that binds itself to the life of perfci (PR_SET_PDEATHSIG), then runs the script by exec."""

VERSIONS_CODE = """
import platform
from importlib.metadata import version
print(platform.python_version())
print(version("torch"))
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A command: its ``name`` without folder and suffix, and its other ``arguments``."""

    command: tuple[str, ...]
    program: str
    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """How a script ended. ``exit_code`` is below zero after a signal.

    ``peak_rss_bytes`` is the largest resident memory of the script or of a process it waited for; absent
    where it was smaller than perfci itself, for a process starts with the peak of the one that started it.
    """

    exit_code: int
    interrupted: bool
    started_at: datetime
    wall_s: float
    peak_rss_bytes: int | None


def parse_script_command(command: Sequence[str]) -> Script:
    """Find the program and script of a command line; ``PerfciError`` for a part that does not exist."""
    program = shutil.which(command[0])
    if program is None:
        raise PerfciError(
            f"there is no program {command[0]!r} here or on the PATH; write: perfci wrap -- python train.py"
        )
    place = next((i for i, word in enumerate(command) if word.endswith(".py")), None)
    if place is not None:
        if not Path(command[place]).is_file():
            raise PerfciError(f"there is no script {command[place]} in {Path.cwd()}")
        return _build_script(command, program, Path(command[place]).stem, {0, place})
    module = command.index("-m") + 1 if "-m" in command else len(command)
    if module < len(command):
        return _build_script(command, program, command[module], {0, module - 1, module})
    return _build_script(command, program, Path(command[0]).stem, {0})


def _build_script(command: Sequence[str], program: str, name: str, name_positions: set[int]) -> Script:
    return Script(
        tuple(command), program, name, tuple(w for i, w in enumerate(command) if i not in name_positions)
    )


def read_interpreter_versions(script: Script) -> tuple[str, str]:
    """The versions of Python and torch that a script runs with, empty where it is not run by a Python."""
    interpreter = _find_interpreter(Path(script.program))
    if interpreter is None:
        return "", ""
    try:
        output = subprocess.run(
            [interpreter, "-c", VERSIONS_CODE],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return "", ""
    python, torch, *_ = [*output.split(), "", ""]
    return python, torch


def _find_interpreter(program: Path) -> str | None:
    """The Python interpreter that a program is, or that its shebang line names, as torchrun's does."""
    if program.name.startswith("python"):
        return str(program)
    with program.open("rb") as file:
        words = file.readline(200).removeprefix(b"#!").split()
    named = next((word.decode() for word in words if Path(os.fsdecode(word)).name.startswith("python")), None)
    return named and shutil.which(named)


def run_script(script: Script, variables: Mapping[str, str], *, output: int | None = None) -> ScriptResult:
    """Run a script in a process group of its own; pass Ctrl-C on once, and kill what it leaves behind.

    ``output`` is the file descriptor its standard output goes to, ours when absent. Its standard input is
    empty.
    """
    started_at, begin = datetime.now(UTC), time.monotonic()
    process = subprocess.Popen(
        # A small interpreter in between, which exec replaces: Popen itself cannot set the signal, except by
        # preexec_fn, which is unsafe in a process with threads.
        [sys.executable, "-S", "-E", "-c", LAUNCH_CODE, str(os.getpid()), script.program, *script.command],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=output,
        start_new_session=True,
    )
    interrupted = False
    try:
        status, usage = _wait_for(process)
    except KeyboardInterrupt:
        interrupted = True
        status, usage = _interrupt(process)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
    # wait4 has reaped it: without a code here Popen would warn of a process that still runs.
    process.returncode = os.waitstatus_to_exitcode(status)
    # A process starts with the peak of the one that forked it: below perfci's own, its peak is unknown.
    # VmHWM is that of this program alone; our own ru_maxrss would include the peak of our parents.
    own_peak_kb = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    peak = usage.ru_maxrss * 1024 if usage.ru_maxrss > own_peak_kb else None
    return ScriptResult(process.returncode, interrupted, started_at, time.monotonic() - begin, peak)


def _wait_for(process: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage]:
    _, status, usage = os.wait4(process.pid, 0)
    return status, usage


def _interrupt(process: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage]:
    """Pass Ctrl-C on and wait a while; a second one, or the end of the wait, kills the script at once."""
    _signal_group(process.pid, signal.SIGINT)
    deadline = time.monotonic() + INTERRUPT_GRACE_S
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < deadline:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                return status, usage
            time.sleep(0.05)
    _signal_group(process.pid, signal.SIGKILL)
    return _wait_for(process)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
