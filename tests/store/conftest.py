from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfci.store import Store, open_store


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without rows, migrated once for all tests."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    open_store(f"sqlite:///{path}", create=True).close()
    return path


@pytest.fixture
def database(empty_database: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(empty_database, tmp_path / "perfci.db"))


@pytest.fixture
def store(database: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{database}", create=False)
    yield store
    store.close()
