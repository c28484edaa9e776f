"""Environments that measure, forked from processes that have imported what most of them import.

An interpreter with torch takes two seconds to start, and the tests start hundreds. What a start itself has
to keep is tested in ``tests/runner``, and wherever ``perfci`` itself starts from nothing: there environments
do so too.
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

from perfci.config.toml_tables import EnvironmentTable
from perfci.runner import fork_server_client
from tests.support import environment_fork_server

PRELOADS = ((), EnvironmentTable().preload)

IMPORT_VARIABLE_PREFIXES = ("PYTHON", "TORCH", "LD_", "OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "KMP_")
"""Variables that libraries read when imported: where one differs, an environment starts from nothing."""

START_ENVIRONMENT = dict(os.environ)
"""The variables this process began with, before any test set its own."""


class WarmParent(fork_server_client.ForkServerClient):
    """A fork server forked from a process that has imported torch already."""

    def __init__(self, python: str, suite: Any, *, preload: Sequence[str] = (), **options: Any) -> None:
        self._preload = tuple(preload)
        super().__init__(python, suite, preload=preload, **options)

    def _start(self, child_socket: socket.socket, threads: int) -> Any:
        variables = self._process_environment(threads)
        if self._preload in PRELOADS and self._python == sys.executable:
            server = _fork_server(self._preload)
            if server.can_fork(variables):
                with self._open_log("wb") as log:
                    return server.fork(variables, self._scratch, child_socket.fileno(), log.fileno())
        return super()._start(child_socket, threads)


class ForkServer:
    """A fork server that ends with this process, as does all that it forked."""

    def __init__(self, preload: Sequence[str]) -> None:
        self._variables = {
            **START_ENVIRONMENT,
            **dict.fromkeys(fork_server_client.THREAD_POOLS, "1"),
            "PYTHONUNBUFFERED": "1",
        }
        harness = str(Path(fork_server_client.__file__).with_name("harness"))
        self._socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with child_socket:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    environment_fork_server.__file__,
                    str(child_socket.fileno()),
                    harness,
                    *preload,
                ],
                pass_fds=[child_socket.fileno()],
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def can_fork(self, variables: Mapping[str, str]) -> bool:
        return select_import_variables(variables) == select_import_variables(self._variables)

    def fork(self, variables: Mapping[str, str], folder: str, control: int, log: int) -> ForkedProcess:
        request = json.dumps({"variables": variables, "folder": folder}).encode()
        socket.send_fds(self._socket, [request], [control, log])
        return ForkedProcess(int(self._socket.recv(environment_fork_server.MESSAGE)))


class ForkedProcess:
    """The part of ``Popen`` that ``ForkServerClient`` uses."""

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
def _fork_server(preload: tuple[str, ...]) -> ForkServer:
    return ForkServer(preload)


def select_import_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(IMPORT_VARIABLE_PREFIXES)}
