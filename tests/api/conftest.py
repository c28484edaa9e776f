"""One application over an empty database, asked without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_client import NOW, Api

from perfci.store import Store, open_store
from perfci_web import create_app


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)
    yield store
    store.close()


@pytest.fixture
def api(store: Store) -> Iterator[Api]:
    app = create_app(store, read_only=False, clock=lambda: NOW)
    yield Api(app)
    app.extensions["perfci_api"].group.close()
