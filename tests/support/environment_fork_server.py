"""Fork measured environments from a process of the tests that has made their imports already.

Usage: ``environment_fork_server.py FD HARNESS NAMES``.

Nothing but the standard library is imported here, as a suite would find it imported.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import socket
import sys
import traceback
import types
from typing import Any

MESSAGE = 1 << 18


def serve(requests: socket.socket, harness: str, preload: list[str]) -> None:
    """Fork an environment for every request, until the tests' process hangs up."""
    environment = import_harness(harness, preload)
    environment.die_with_parent(os.getppid())
    environment.die_with_parent = end_with_grandparent(environment.die_with_parent)
    while True:
        message, handles, _, _ = socket.recv_fds(requests, MESSAGE, 2)
        if not message:
            break
        pid = os.fork()
        if pid == 0:
            requests.close()
            become_environment(harness, *handles, **json.loads(message))
        for handle in handles:
            os.close(handle)
        requests.send(str(pid).encode())
        while environment.has_child() and os.waitpid(-1, os.WNOHANG)[0]:
            pass
    while environment.has_child():
        os.wait()


def import_harness(harness: str, preload: list[str]) -> Any:
    """Import the harness and all that an environment imports before its first request."""
    package = types.ModuleType("perfci_harness")
    package.__path__ = [harness]
    sys.modules["perfci_harness"] = package
    environment = importlib.import_module("perfci_harness.fork_server")
    environment.preload_and_describe_environment(preload)
    environment.speed_up_forks_with_huge_pages = lambda: (
        None
    )  # a fork has them already, and would copy them all
    return environment


def end_with_grandparent(die_with_parent: Any) -> Any:
    """End with the parent of this process: here it is the tests' process that starts environments."""
    return lambda _: die_with_parent(os.getppid())


def become_environment(harness: str, control: int, log: int, variables: dict[str, str], folder: str) -> None:
    """Turn this fork into the interpreter that a fork server would have started."""
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        os.dup2(log, 2)
        sys.argv = [harness, str(control)]
        runpy.run_path(harness, run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    del sys.path[0]
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        serve(requests, sys.argv[2], sys.argv[3:])
