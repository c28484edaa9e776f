"""A process of tests that has imported what environments import, and forks them: ``nursery.py FD HARNESS
NAMES``.

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
    """Fork an environment for every request, until nobody can ask any more."""
    environment = imported(harness, preload)
    environment.die_with_parent(os.getppid())
    environment.die_with_parent = owned_by(environment.die_with_parent)
    while True:
        message, handles, _, _ = socket.recv_fds(requests, MESSAGE, 2)
        if not message:
            break
        pid = os.fork()
        if pid == 0:
            requests.close()
            become(harness, *handles, **json.loads(message))
        for handle in handles:
            os.close(handle)
        requests.send(str(pid).encode())
        while environment.any_child() and os.waitpid(-1, os.WNOHANG)[0]:
            pass
    while environment.any_child():
        os.wait()


def imported(harness: str, preload: list[str]) -> Any:
    """What an environment is made of, with all that it imports before it is asked for anything."""
    package = types.ModuleType("perfci_harness")
    package.__path__ = [harness]
    sys.modules["perfci_harness"] = package
    environment = importlib.import_module("perfci_harness.environment_parent")
    environment.introduce(preload)
    environment.gather_into_huge_pages = lambda: None  # a fork has them already, and would copy them all
    return environment


def owned_by(die_with_parent: Any) -> Any:
    """Whoever asks for an environment is its parent's parent here: that is whom it outlives no longer."""
    return lambda _: die_with_parent(os.getppid())


def become(harness: str, control: int, log: int, variables: dict[str, str], folder: str) -> None:
    """Be the interpreter that was asked for, as far as it can tell."""
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
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        serve(asked, sys.argv[2], sys.argv[3:])
