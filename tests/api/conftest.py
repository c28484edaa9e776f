"""One application over an empty database of either kind, asked without a network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from api_client import NOW, Api

from perfci.store import Store
from perfci_web import create_app
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store


@pytest.fixture
def api(store: Store) -> Iterator[Api]:
    app = create_app(store, read_only=False, clock=lambda: NOW)
    yield Api(app)
    app.extensions["perfci"].group_commit.close()
