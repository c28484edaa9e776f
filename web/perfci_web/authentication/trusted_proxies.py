"""WSGI middleware that applies forwarded headers of trusted proxies and drops all others."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flask import Request

from perfci.auth.permissions import AccessDenied

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

FORWARDED_HEADERS = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_FORWARDED",
)
WAS_FORWARDED = "perfci.was_forwarded"
"""Environ key: whether the request came through any proxy."""
FROM_PROXY = "perfci.from_proxy"
"""Environ key: set in a request that came through a trusted proxy."""

USER_NAME_PATTERN = re.compile(r"[^\s,;\"\x00-\x1f\x7f]{1,200}")
"""A user name in a header. A comma would mean two joined headers, of which one may be forged."""


class TrustedProxies:
    """Take sender, scheme and user from the headers of a trusted proxy; ignore them from any other peer."""

    def __init__(self, app: WSGIApplication, networks: Sequence[Network], user_header: str) -> None:
        self._app, self._networks = app, networks
        self._user_key = "HTTP_" + user_header.upper().replace("-", "_")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ[WAS_FORWARDED] = any(name in environ for name in FORWARDED_HEADERS)
        if self._is_trusted(environ.get("REMOTE_ADDR", "")):
            environ[FROM_PROXY] = True
            self._apply_forwarded_headers(environ)
        else:
            environ.pop(self._user_key, None)
        for name in FORWARDED_HEADERS:
            environ.pop(name, None)
        return self._app(environ, start_response)

    def _apply_forwarded_headers(self, environ: dict[str, Any]) -> None:
        """Set the sender to the last untrusted address: entries before it may be forged."""
        addresses = [part.strip() for part in environ.get("HTTP_X_FORWARDED_FOR", "").split(",")]
        untrusted = (address for address in reversed(addresses) if address and not self._is_trusted(address))
        sender = next(untrusted, "")
        if is_address(sender):
            environ["REMOTE_ADDR"] = sender
        if environ.get("HTTP_X_FORWARDED_PROTO", "").strip().lower() == "https":
            environ["wsgi.url_scheme"] = "https"

    def _is_trusted(self, text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        plain = getattr(address, "ipv4_mapped", None) or address  # ::ffff:10.0.0.1 is 10.0.0.1
        return any(plain.version == network.version and plain in network for network in self._networks)


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def proxy_user(request: Request, header: str) -> str:
    """Return the user name that a trusted proxy sent, empty without one."""
    if not request.environ.get(FROM_PROXY):
        return ""
    name = request.headers.get(header, "")
    if name and not USER_NAME_PATTERN.fullmatch(name):
        raise AccessDenied(401, f"The header {header} was expected to hold one name, once.")
    return name
