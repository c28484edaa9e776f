"""Open the HTTP clients that every request of perfci goes through."""

from __future__ import annotations

import functools
import ssl
from typing import Any

import httpx

from perfci import __version__
from perfci.model import PerfciError

TIMEOUT_S = 10.0
"""For each phase of a request; a slower answer is asked for again."""


def open_http_client(
    base_url: str,
    *,
    token: str = "",
    auth: httpx.Auth | None = None,
    timeout_s: float = TIMEOUT_S,
    transport: httpx.BaseTransport | None = None,
) -> httpx.Client:
    """Open a client of one server. It follows no redirect: the token must not reach another host."""
    headers = {"User-Agent": f"perfci/{__version__}"} | (
        {"Authorization": f"Bearer {token}"} if token else {}
    )
    try:
        address = httpx.URL(base_url)
        if address.scheme not in ("http", "https") or not address.host:
            raise httpx.InvalidURL("expected for example https://perf.example.com")
        return httpx.Client(
            base_url=address,
            headers=headers,
            auth=auth,
            timeout=timeout_s,
            transport=transport,
            follow_redirects=False,
        )
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        raise PerfciError(
            f"{base_url!r} is no server's address, or the token is no token: {error}."
        ) from None


@functools.cache
def load_trusted_authorities() -> ssl.SSLContext:
    """Load the certificates that servers are checked by: once, since that takes longer than a request."""
    return httpx.create_ssl_context()


def build_wsgi_transport(app: Any) -> httpx.BaseTransport:
    """A transport that calls a WSGI application directly."""
    return httpx.WSGITransport(app)
