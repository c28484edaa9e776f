from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "plugins" / "asv_bench_perfci"

sys.path.insert(0, str(PLUGIN))


@pytest.fixture(scope="session")
def installed_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the plugin as pip installs it, metadata included: asv finds it by those."""
    folder = tmp_path_factory.mktemp("plugin")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, "--target", str(folder), str(PLUGIN)], check=True
    )
    return folder
