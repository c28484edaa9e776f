"""One database, one server and one browser for all tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import a_browser, a_server, chromium
from flask.testing import FlaskClient
from playwright.sync_api import Browser
from web_builders import NOW, a_store, fill

from perfci.store import Store
from perfci_web import create_app


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = a_store(tmp_path_factory.mktemp("full"))
    fill(store)
    yield store
    store.close()


@pytest.fixture(scope="session")
def client(store: Store) -> FlaskClient:
    return create_app(store, clock=lambda: NOW).test_client()


@pytest.fixture
def empty_store(tmp_path: Path) -> Iterator[Store]:
    store = a_store(tmp_path)
    yield store
    store.close()


@pytest.fixture(scope="session")
def url(store: Store) -> Iterator[str]:
    with a_server(store.url) as address:
        yield address.rstrip("/")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip(
            "no Chromium on this machine: install the chromium package, or name one in PERFCI_CHROMIUM"
        )
    with a_browser() as browser:
        yield browser
