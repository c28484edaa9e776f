"""The way from the client to a server in this process, open or not."""

from __future__ import annotations

import httpx

from perfci.store import Store
from perfci_web import create_app


class SwitchableConnection(httpx.BaseTransport):
    """The way to a server, open or not."""

    def __init__(self, store: Store) -> None:
        self.app = create_app(store, read_only=False)
        self.is_open = True

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not self.is_open:
            raise httpx.ConnectError("no route to host")
        return httpx.WSGITransport(app=self.app).handle_request(request)
