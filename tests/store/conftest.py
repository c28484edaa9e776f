from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perfci.store import Store, open_store
from tests.support.databases import database_url as database_url
from tests.support.databases import fresh_database
from tests.support.databases import kind as kind
from tests.support.databases import postgres_url as postgres_url
from tests.support.databases import store as store


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """An empty SQLite database, for tests of what is particular to a file."""
    with fresh_database("sqlite", tmp_path) as url:
        yield Path(url.removeprefix("sqlite:///"))


@pytest.fixture
def sqlite_store(database: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{database}", create=False)) as store:
        yield store
