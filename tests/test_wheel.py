"""The built wheel, in an environment that has nothing of the checkout, starts and serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from pathlib import Path

import pytest

from tests.support.built_wheel import find_or_build_wheel
from tests.support.git_project import GitProject


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare environment with the wheel, which borrows the installed dependencies but not the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    built = find_or_build_wheel(tmp_path_factory)
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (site,) = (folder / "env" / "lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(built)]
    subprocess.run([sys.executable, *install], check=True)
    return folder / "env" / "bin" / "python"


def test_the_wheel_imports_without_the_checkout(python: Path, tmp_path: Path) -> None:
    code = "import perfci, perfci_web; print(perfci.__file__); print(perfci_web.__file__)"

    out = subprocess.run(
        [python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout

    assert all(str(python.parent.parent) in line for line in out.splitlines())


def test_the_wheel_holds_neither_tests_nor_benchmarks(python: Path) -> None:
    site = next((python.parent.parent / "lib").glob("python3*/site-packages"))

    assert not any((site / name).exists() for name in ("tests", "benchmarks", "web", "docs"))


def test_the_wheel_measures_and_serves(python: Path, tmp_path: Path) -> None:
    project = GitProject(tmp_path / "project")
    project.commit("First", benchmarks__suite="def track_one(): return 1\n")
    env = {**os.environ, "PYTHONPATH": ""}
    perfci = [str(python), "-m", "perfci.cli"]

    subprocess.run(
        [*perfci, "run", "--rounds", "1"], cwd=project.folder, env=env, check=True, capture_output=True
    )
    server = subprocess.Popen(
        [*perfci, "serve", "--port", "0"], cwd=project.folder, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        address, _, token = server.stdout.readline().split()[1].partition("?token=")
        request = urllib.request.Request(
            f"{address}project/benchmarks", headers={"Authorization": f"Bearer {token}"}
        )
        page = urllib.request.urlopen(request, timeout=120).read().decode()
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=120)
        server.stdout.close()

    assert "suite.track_one" in page
