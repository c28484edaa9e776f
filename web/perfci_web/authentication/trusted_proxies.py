"""What a proxy in front may say of a request: only one whose address was named is believed."""

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
WAS_FORWARDED = "perfci.passed_on"
"""Set in a request that somebody else than its sender brought here."""
FROM_PROXY = "perfci.from_proxy"
"""Set in a request that a trusted proxy brought here."""

USER_NAME_PATTERN = re.compile(r"[^\s,;\"\x00-\x1f\x7f]{1,200}")
"""A name as proxies write it. A comma would be two headers joined: then nobody knows which of them the proxy wrote."""


class TrustedProxies:
    """Take the sender and the scheme from a trusted proxy, and from everybody else nothing a proxy would say."""

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
        """The sender is the last address that no trusted proxy has: what stands before it, anybody may have written."""
        hops = [one.strip() for one in environ.get("HTTP_X_FORWARDED_FOR", "").split(",") if one.strip()]
        unknown = next((hop for hop in reversed(hops) if not self._is_trusted(hop)), "")
        if is_address(unknown):
            environ["REMOTE_ADDR"] = unknown
        if environ.get("HTTP_X_FORWARDED_PROTO", "").strip().lower() == "https":
            environ["wsgi.url_scheme"] = "https"

    def _is_trusted(self, address: str) -> bool:
        try:
            told = ipaddress.ip_address(address)
        except ValueError:
            return False
        plain = getattr(told, "ipv4_mapped", None) or told
        return any(plain.version == one.version and plain in one for one in self._networks)


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def proxy_user(request: Request, header: str) -> str:
    """The name a trusted proxy gave to the sender; empty where it gave none."""
    if not request.environ.get(FROM_PROXY):
        return ""
    name = request.headers.get(header, "")
    if name and not USER_NAME_PATTERN.fullmatch(name):
        raise AccessDenied(401, f"The header {header} was expected to hold one name, once.")
    return name
