"""Start the fork server of a measured environment, and let it fork workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from perfci.model import PerfciError
from perfci.runner.frozen_suite import FrozenSuite
from perfci.runner.measurement_worker_client import (
    JsonLineReader,
    MeasurementWorkerClient,
    WorkerSettings,
    close_connection,
)

HARNESS_VERSION = "perfci-1"
"""Version of the measuring method: another version is another series."""

THREAD_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class ForkServerClient:
    """A process of the measured environment that has imported torch and waits to be forked.

    A fresh one has another memory layout and hash seed, so renewing it between rounds turns what would be a
    bias between commits into ordinary noise between rounds.
    """

    def __init__(
        self,
        python: str,
        suite: FrozenSuite,
        *,
        launch: str = "fork",
        threads: int = 1,
        preload: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._python = python
        self._worker_settings = WorkerSettings(suite, launch, dict(variables or {}), self._exit_reason)
        self._scratch = tempfile.mkdtemp(prefix="perfci-")
        self._workers: list[MeasurementWorkerClient] = []
        connection, child_socket = socket.socketpair()
        with child_socket:
            self._process = self._start(child_socket, threads)
        self._socket = connection
        try:
            self.hello = self._exchange_hello(preload)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ForkServerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up: every worker kills what it supervises, and all of them end."""
        for worker in self._workers:
            worker.close()
        close_connection(self._socket)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def get_or_fork_worker(self, number: int = 0) -> MeasurementWorkerClient:
        """Return one of its workers, all forked from one process; forked on first use."""
        while len(self._workers) <= number:
            place = Path(self._scratch, f"worker-{len(self._workers)}")
            self._workers.append(MeasurementWorkerClient(self._open_worker(), self._worker_settings, place))
        return self._workers[number]

    def _open_worker(self) -> socket.socket:
        connection, child_socket = socket.socketpair()
        with child_socket:
            # A descriptor travels beside at least one byte of data (unix(7), SCM_RIGHTS).
            socket.send_fds(self._socket, [b"d"], [child_socket.fileno()])
        return connection

    def _start(self, child_socket: socket.socket, threads: int) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("harness")
        env = self._process_environment(threads)
        command = [self._python, str(script), str(child_socket.fileno())]
        try:
            with self._open_log("wb") as log:
                return subprocess.Popen(
                    command,
                    pass_fds=[child_socket.fileno()],
                    env=env,
                    cwd=self._scratch,
                    start_new_session=True,  # Ctrl-C reaches perfci alone, which ends what it started
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
        except OSError as error:
            raise PerfciError(f"the interpreter {self._python} does not start: {error.strerror}") from None

    def _process_environment(self, threads: int) -> dict[str, str]:
        pools = dict.fromkeys(THREAD_POOLS, str(threads))
        return {**os.environ, **pools, **self._worker_settings.variables, "PYTHONUNBUFFERED": "1"}

    def _exchange_hello(self, preload: Sequence[str]) -> dict[str, Any]:
        hello = {"preload": list(preload), "parent": os.getpid()}
        self._socket.sendall(json.dumps(hello).encode() + b"\n")
        answer = JsonLineReader(self._socket).read_message()
        if answer is None:
            raise PerfciError(self._exit_reason())
        return answer

    def _exit_reason(self) -> str:
        with self._open_log("rb") as log:
            text = log.read().decode("utf-8", "replace").strip()
        last = text.splitlines()[-1] if text else f"status {self._process.wait()}"
        return f"the environment {self._python} cannot measure: {last}"

    def _open_log(self, mode: str) -> Any:
        return open(os.path.join(self._scratch, "parent.log"), mode)
