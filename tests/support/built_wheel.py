"""The wheel of this checkout, built once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def find_or_build_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder = shared / "built-wheel"
    with (shared / "built-wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
            subprocess.run([sys.executable, "-m", "pip", *build, str(ROOT)], check=True)
    (wheel,) = folder.glob("perfci-*.whl")
    return wheel
