"""A server in this process, which the verbs of the command line reach as they would reach a distant one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perfci.net import http_client
from perfci.service.uploads import send_to_server
from perfci.store import Store, open_store
from tests.support.databases import database_url as database_url
from tests.support.databases import fresh_database
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.switchable_connection import SwitchableConnection


@pytest.fixture
def server_store(tmp_path: Path) -> Iterator[Store]:
    """The store of the server."""
    with fresh_database("sqlite", tmp_path) as url, closing(open_store(url, create=False)) as store:
        yield store


@pytest.fixture
def connection(server_store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[SwitchableConnection]:
    connection = SwitchableConnection(server_store)
    monkeypatch.setenv("PERFCI_CLIENT_GIVE_UP_AFTER_S", "0")
    monkeypatch.setenv("PERFCI_TOKEN", "")
    monkeypatch.setattr(
        send_to_server,
        "open_http_client",
        lambda url, token="", auth=None: http_client.open_http_client(url, token=token, transport=connection),
    )
    yield connection
    connection.app.extensions["perfci"].group_commit.close()
