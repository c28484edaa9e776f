"""A verb that runs beside this one: started again when it dies, and never left behind, however this process ends.

``python -m perfci.cli.shared.supervised_process VERB...`` is such a verb: it ends when its standard input does, which the kernel closes
even for a parent that was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_TIMEOUT_S = 20.0
"""How long a verb may take to finish what it does, once it is to end."""

NICENESS = 10
"""Requests come first: somebody waits for them."""

STABLE_AFTER_S = 60.0
"""A verb that ran for so long starts again at once; one that dies sooner waits twice as long as the last time."""


class SupervisedProcess:
    """One such verb. Settings travel in its environment: everybody may read the arguments of a process."""

    def __init__(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._arguments, self._variables, self._folder, self._clock = (
            tuple(arguments),
            variables,
            folder,
            clock,
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = self._next_start = 0.0
        self._wait_s = 1.0

    def ensure_running(self) -> None:
        """Start it, if there is one to run, and it does not run and was not started a moment ago."""
        if not self._arguments:
            return
        if self._process is not None and self._process.poll() is not None:
            self._record_exit(self._process)
        if self._process is None and self._clock() >= self._next_start:
            self._process = self._start()

    def detach(self) -> None:
        """Forget it, in a fork of the process that keeps it: its end must hang on one process alone."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started_at = self._clock()
        return subprocess.Popen(
            [sys.executable, "-m", "perfci.cli.shared.supervised_process", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=self._folder,
            env={**os.environ, **self._variables},
        )

    def _record_exit(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            process.stdin.close()
        self._process = None
        now = self._clock()
        self._wait_s = (
            1.0 if now - self._started_at >= STABLE_AFTER_S else min(2 * self._wait_s, STABLE_AFTER_S)
        )
        self._next_start = now + self._wait_s


def exit_with_parent() -> None:
    """End this process as by a signal when its parent is gone, and for good if that does not help."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_TIMEOUT_S)
        os._exit(1)

    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the pipe
    threading.Thread(target=watch, name="perfci-parent", daemon=True).start()


if __name__ == "__main__":
    from perfci.cli import main

    exit_with_parent()
    main()
