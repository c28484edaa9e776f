"""A verb in a child process: restarted when it dies, and ended with its parent however that ends.

``python -m perfci.cli.shared.supervised_process VERB...`` runs such a verb. It ends when its standard input
is closed, which the kernel does even for a parent that was killed.
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
"""Seconds a verb may take to finish its work after a request to end."""

NICENESS = 10
"""Niceness of the child: requests to the server come first."""

STABLE_AFTER_S = 60.0
"""Seconds after which a verb that fails is restarted at once; before that, the wait doubles each time."""

RESTART_AFTER_S = 1.0

EXTERNAL_ENDS = (0, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGKILL)
"""Exit codes of a verb that somebody else ended: it is restarted at once, since it did not fail."""


class SupervisedProcess:
    """A supervised verb; secrets travel in its environment, since other users can read its arguments."""

    def __init__(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._arguments = tuple(arguments)
        self._variables = variables
        self._folder = folder
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = self._next_start = 0.0
        self._wait_s = RESTART_AFTER_S

    def ensure_running(self) -> None:
        """Start the verb if it is not running and its wait after the last exit is over."""
        if not self._arguments:
            return
        if self._process is not None and self._process.poll() is not None:
            self._record_exit(self._process)
        if self._process is None and self._clock() >= self._next_start:
            self._started_at = self._clock()
            self._process = self._start()

    def forget_child_in_fork(self) -> None:
        """Forget the child in a fork of its parent, so that its end depends on the parent alone."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def stop(self) -> None:
        """End the child and wait for it; kill it after the timeout."""
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
        if process.returncode in EXTERNAL_ENDS or now - self._started_at >= STABLE_AFTER_S:
            self._wait_s = RESTART_AFTER_S
        else:
            self._wait_s = min(2 * self._wait_s, STABLE_AFTER_S)
        self._next_start = now + self._wait_s


def exit_with_parent() -> None:
    """Send SIGTERM to this process when its parent is gone, and exit hard if it does not end."""

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
