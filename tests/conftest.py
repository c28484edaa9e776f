from __future__ import annotations

import gc
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="module")
def settled_heap() -> None:
    """Collecting garbage, as measurements do, looks at what the tests of a module made and not at all of torch."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_machine_lock(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a measurement outside the tests, and none inherits settings of the person who runs them."""
    for name in ("PERFCI_DB", "PERFCI_PROJECT", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PERFCI_LOCK", str(tmp_path_factory.getbasetemp() / "machine.lock"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder
