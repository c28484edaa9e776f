"""Checks before every request, and security headers, ETags and compression after it."""

from __future__ import annotations

import gzip
import ipaddress
import secrets
from urllib.parse import urlsplit

from flask import Flask, Request, Response, abort, g, request
from werkzeug.exceptions import MethodNotAllowed

from perfci_web.authentication.csrf import READ_METHODS

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MIN_COMPRESS_BYTES = 1024
HSTS_MAX_AGE_S = 31_536_000
COMPRESSIBLE_TYPES = ("text/", "application/json", "image/svg+xml", "application/javascript")

CONTENT_SECURITY_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
}

SVG_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""An SVG has inline styles and may do nothing else."""


def register_middleware(app: Flask, *, read_only: bool, loopback_only: bool, public_url: str = "") -> None:
    """Register the hooks; ``public_url`` is the address under which a proxy publishes this server."""
    names = LOOPBACK_NAMES | ({host_without_port(urlsplit(public_url).netloc)} if public_url else set())
    strict = public_url.startswith("https://")

    @app.before_request
    def check_request() -> None:
        if loopback_only and host_without_port(request.headers.get("Host", "")) not in names:
            abort(403, "This server answers on this machine only, under the name localhost or 127.0.0.1.")
        if read_only and request.method not in READ_METHODS:
            raise MethodNotAllowed(sorted(READ_METHODS), "This server is read-only.")

    @app.after_request
    def finish_response(response: Response) -> Response:
        _set_security_headers(response)
        if strict:
            response.headers.setdefault("Strict-Transport-Security", f"max-age={HSTS_MAX_AGE_S}")
        return _compress(_add_etag(response))


def style_nonce() -> str:
    """Return the nonce of this response, for the style sheet that the chart library creates."""
    if "style_nonce" not in g:
        g.style_nonce = secrets.token_urlsafe(16)
    return str(g.style_nonce)


def accepts_gzip(request: Request) -> bool:
    return request.accept_encodings["gzip"] > 0


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_without_port(header: str) -> str:
    """Return the name in a Host header without its port, ``::1`` out of ``[::1]:8080``."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _set_security_headers(response: Response) -> None:
    if response.mimetype == "image/svg+xml":
        policy = SVG_SECURITY_POLICY
    else:
        nonce = f" 'nonce-{g.style_nonce}'" if "style_nonce" in g else ""
        directives = CONTENT_SECURITY_POLICY | {"style-src": CONTENT_SECURITY_POLICY["style-src"] + nonce}
        policy = "; ".join(f"{name} {sources}" for name, sources in directives.items())
    response.headers.setdefault("Content-Security-Policy", policy)
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")


def _add_etag(response: Response) -> Response:
    """Add an ETag and answer 304 where it matches; a page with a nonce differs every time."""
    if response.status_code != 200 or response.direct_passthrough or "style_nonce" in g:
        return response
    if "Cache-Control" not in response.headers:
        response.headers["Cache-Control"] = "no-cache"
    if not response.headers.get("ETag"):
        response.add_etag(weak=True)
    response.make_conditional(request)
    return response


def _compress(response: Response) -> Response:
    is_encoded = "Content-Encoding" in response.headers
    if (
        response.status_code != 200
        or is_encoded
        or response.direct_passthrough
        or not str(response.mimetype).startswith(COMPRESSIBLE_TYPES)
    ):
        return response
    response.vary.add("Accept-Encoding")
    body = response.get_data()
    if len(body) >= MIN_COMPRESS_BYTES and accepts_gzip(request):
        response.set_data(gzip.compress(body, compresslevel=6, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response
