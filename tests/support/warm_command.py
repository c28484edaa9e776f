"""The command ``perfci``, forked from a process that has imported its verbs already.

An interpreter takes more than a second to import what a verb needs, and the workflows that tests execute
start dozens. That ``perfci`` starts from nothing is tested where it is installed and where it serves. What
a command measures in is forked as well: all its environments share one import of torch.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from perfci import cli
from perfci.runner import measurement_runner

ROOT = Path(__file__).parents[2]

VERBS = ("compare", "db", "export", "github", "noise", "run", "serve", "upload")

MESSAGE = 1 << 18

CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    request = dict(arguments=sys.argv[1:], folder=os.getcwd(), variables=dict(os.environ))
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    sys.exit(int(server.recv(16) or 1))
"""


@functools.cache
def warm_command() -> Path:
    """An executable that is ``perfci`` while this process runs; whoever kills it kills what it started."""
    folder = Path(tempfile.mkdtemp(prefix="perfci-test-"))
    address, path = folder / "socket", folder / "perfci"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen()
        command = [sys.executable, "-m", __name__, str(listener.fileno())]
        server = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listener.fileno()]
        )
    atexit.register(_end, server, folder)
    path.write_text(CLIENT.format(python=sys.executable, address=str(address)))
    path.chmod(0o755)
    return path


def _end(server: subprocess.Popen[bytes], folder: Path) -> None:
    server.communicate()
    shutil.rmtree(folder)


class CommandServer:
    """Forks a command for every client, until the tests' process hangs up."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ready = selectors.DefaultSelector()
        self._ready.register(listener, selectors.EVENT_READ, self._fork)
        self._running: set[int] = set()

    def serve(self, tests: int) -> None:
        self._ready.register(tests, selectors.EVENT_READ)
        events = self._ready.select()
        while all(key.fd != tests for key, _ in events):
            for key, _ in events:
                key.data()
            events = self._ready.select()
        for pid in self._running:
            self._kill(pid)

    def _fork(self) -> None:
        client, _ = self._listener.accept()
        message, handles, _, _ = socket.recv_fds(client, MESSAGE, 3)
        pid = os.fork()
        if pid == 0:
            self._listener.close()
            client.close()
            become_command(handles, **json.loads(message))
        for handle in handles:
            os.close(handle)
        self._running.add(pid)
        ended = os.pidfd_open(pid)
        self._ready.register(client, selectors.EVENT_READ, partial(self._kill, pid))
        self._ready.register(ended, selectors.EVENT_READ, partial(self._reap, pid, ended, client))

    def _reap(self, pid: int, ended: int, client: socket.socket) -> None:
        self._running.remove(pid)
        self._ready.unregister(ended)
        self._ready.unregister(client)
        os.close(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with client, contextlib.suppress(BrokenPipeError):
            client.send(str(code).encode())

    def _kill(self, pid: int) -> None:
        """Kill a command whose client is gone, and its group, which it leads from its first moment on."""
        if pid in self._running:
            os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def become_command(
    handles: Sequence[int], arguments: list[str], folder: str, variables: Mapping[str, str]
) -> None:
    """Turn this fork into the process that the client would have been."""
    code = 1
    try:
        os.setsid()
        for place, handle in enumerate(handles):
            os.dup2(handle, place)
            os.close(handle)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        fork_environments()
        code = cli.run_cli(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def fork_environments() -> None:
    """Fork what measures from a process that begins with the variables of this command."""
    from tests.support.warm_environments import WarmParent  # remembers the variables at its import

    measurement_runner.ForkServerClient = WarmParent  # type: ignore[misc]


if __name__ == "__main__":
    for verb in VERBS:
        cli.perfci.get_command(click.Context(cli.perfci), verb)
    gc.freeze()  # else whoever collects garbage copies every page of what was imported
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        CommandServer(listener).serve(sys.stdin.fileno())
