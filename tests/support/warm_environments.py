"""Environments that measure, forked from processes that have imported what most of them import.

An interpreter with torch takes two seconds to start, and the tests start hundreds. What a start itself has
to keep is tested in ``tests/runner``, and wherever ``perfci`` is a process of its own: there environments
start from nothing.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfci.config.measurement_tables import EnvironmentTable
from perfci.runner import environment_parent
from tests.support import environment_fork_server

PRELOADS = ((), EnvironmentTable().preload)

READ_WHEN_IMPORTED = ("PYTHON", "TORCH", "LD_", "OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "KMP_")
"""Variables that come too late after the imports: where one differs, an environment starts from nothing."""

AS_STARTED = dict(os.environ)
"""What this process began with: of the first test that measures, the variables may be its own."""


class WarmParent(environment_parent.EnvironmentParent):
    def __init__(self, python: str, suite: Any, *, preload: Sequence[str] = (), **options: Any) -> None:
        self._wanted = tuple(preload)
        super().__init__(python, suite, preload=preload, **options)

    def _start(self, child_socket: socket.socket, threads: int) -> Any:
        variables = self._process_environment(threads)
        if self._wanted in PRELOADS and self._python == sys.executable:
            warm = _nursery(self._wanted)
            if warm.suits(variables):
                with self._open_log("wb") as log:
                    return warm.fork(variables, self._scratch, child_socket.fileno(), log.fileno())
        return super()._start(child_socket, threads)


class Nursery:
    """Lives as long as this process, and what it forked no longer than itself."""

    def __init__(self, preload: Sequence[str]) -> None:
        self._variables = {
            **AS_STARTED,
            **dict.fromkeys(environment_parent.THREAD_POOLS, "1"),
            "PYTHONUNBUFFERED": "1",
        }
        harness = str(Path(environment_parent.__file__).with_name("harness"))
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, environment_fork_server.__file__, str(theirs.fileno()), harness, *preload],
                pass_fds=[theirs.fileno()],
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def suits(self, variables: Mapping[str, str]) -> bool:
        return of_imports(variables) == of_imports(self._variables)

    def fork(self, variables: Mapping[str, str], folder: str, control: int, log: int) -> Forked:
        asked = json.dumps({"variables": variables, "folder": folder}).encode()
        socket.send_fds(self._socket, [asked], [control, log])
        return Forked(int(self._socket.recv(environment_fork_server.MESSAGE)))


class Forked:
    """As much of a ``Popen`` as is asked of the process of an environment."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a forked environment", timeout or 0.0)
        return 0

    def __del__(self) -> None:
        os.close(self._handle)


@functools.cache
def _nursery(preload: tuple[str, ...]) -> Nursery:
    return Nursery(preload)


def of_imports(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(READ_WHEN_IMPORTED)}
