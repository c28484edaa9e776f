"""The Python that an operating system brings, and how this machine finds packages for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def find_system_python() -> str:
    """A Python that every user may run; skips the test where there is none."""
    paths = ("/usr/bin/python3", "/usr/local/bin/python3")
    python = next((path for path in paths if _can_install_perfci(path)), None)
    if python is None:
        pytest.skip("needs a Python of 3.11 to 3.13 with venv that every user may run")
    return python


def _can_install_perfci(python: str) -> bool:
    code = "import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))"
    return (
        Path(python).exists()
        and subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0
    )


def pip_environment() -> dict[str, str]:
    """The settings of pip as variables, for somebody who cannot read its files."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True
    ).stdout
    settings = dict(re.findall(r"^(?:global|install|user|:env:)\.([\w-]+)='(.*)'$", listed, flags=re.M))
    return {
        f"PIP_{name.upper().replace('-', '_')}": value.replace("\\n", " ") for name, value in settings.items()
    }
