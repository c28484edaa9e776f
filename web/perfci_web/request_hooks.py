"""Hooks around every request: whom to trust and what to refuse before it; headers, ETag, compression, count
and log line after it.
"""

from __future__ import annotations

import contextlib
import gzip
import ipaddress
import logging
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flask import Flask, Response, abort, g, request
from werkzeug.exceptions import ClientDisconnected, MethodNotAllowed

from perfci_web.api.operation import API_PREFIX
from perfci_web.application_context import WebContext
from perfci_web.authentication.authenticator import FROM_PROXY, READ_METHODS, Network
from perfci_web.page_access import require_page_access
from perfci_web.prometheus import RequestMetrics
from perfci_web.static_files import FAVICON_PATH

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FORWARDED_HEADERS = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_FORWARDED",
)

UNEXPECTED_PROXY = (
    "This server takes requests of this machine only, and this one came through a proxy: set [access] mode "
    "in perfci.toml to let others in."
)

PROXY_HEADER = re.compile(
    r"HTTP_(FORWARDED|VIA|CDN_LOOP|X_REAL_IP|(TRUE|X|X_CLUSTER|FASTLY|FLY)_CLIENT_IP"
    r"|(X_FORWARDED|X_ORIGINAL|X_ENVOY|X_AMZN|X_AZURE|CF|TAILSCALE)(_.*)?)"
)
"""Headers by which proxies, content delivery networks and tunnels show themselves."""

CAME_THROUGH_PROXY = "perfci.came_through_proxy"
"""Environ key: whether a header of the request is one that only proxies add."""

REQUEST_ID_HEADER = "X-Request-Id"
"""The id of a request, which its answer, its log line and its audit entries share."""
REQUEST_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{8,64}")
"""An id accepted from a proxy; anything else could forge log lines."""

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/metrics", FAVICON_PATH})
"""Polled by monitoring; they name no project."""

MAX_FORM_BYTES = 500_000
"""The largest form a page takes; the API limits its bodies itself, and answers what is too large."""
FORM_TOO_LARGE = (
    f"A form may have {MAX_FORM_BYTES:,} bytes, this one has more, and nothing was changed: "
    "go back, and shorten its text or choose fewer incidents."
)
FORM_INCOMPLETE = "The form broke off before its end, and nothing was changed: go back, and send it again."

HSTS_MAX_AGE_S = 31_536_000

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

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

MIN_COMPRESS_BYTES = 1024
COMPRESSIBLE_TYPES = ("text/", "application/json", "image/svg+xml", "application/javascript")

COUNTED_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
QUIET_PATHS = ("/healthz", "/readyz", "/metrics", "/static/")
"""Polled often: only their failures are logged."""

REQUEST_LOG = logging.getLogger("perfci.requests")


def register_request_hooks(
    app: Flask,
    context: WebContext,
    metrics: RequestMetrics,
    *,
    read_only: bool,
    loopback_only: bool,
    public_url: str = "",
) -> None:
    """Register the hooks; ``public_url`` is the address under which a proxy publishes this server."""
    rules = context.authenticator.auth_settings
    app.wsgi_app = TrustedProxies(app.wsgi_app, rules.trusted_networks, rules.proxy_header)  # type: ignore[method-assign]
    is_local = rules.mode == "local"
    names = set(LOOPBACK_NAMES)
    if public_url and not is_local:
        names.add(_host_without_port(urlsplit(public_url).netloc))
    is_https = public_url.startswith("https://")

    @app.before_request
    def begin_request() -> Response | None:
        g.began = time.perf_counter()
        sent_id = request.headers.get(REQUEST_ID_HEADER, "")
        g.request_id = sent_id if REQUEST_ID_PATTERN.fullmatch(sent_id) else secrets.token_hex(8)
        # The API checks access itself; static files and the answers for monitoring are for everybody.
        g.is_page = request.path not in PUBLIC_PATHS and not f"{request.path}/".startswith(
            (f"{API_PREFIX}/", "/static/")
        )
        if loopback_only and _host_without_port(request.headers.get("Host", "")) not in names:
            abort(403, "This server answers on this machine only, under the name localhost or 127.0.0.1.")
        if is_local and request.environ[CAME_THROUGH_PROXY]:
            abort(403, UNEXPECTED_PROXY)
        if read_only and request.method not in READ_METHODS:
            raise MethodNotAllowed(sorted(READ_METHODS), "This server is read-only.")
        if not g.is_page:
            return None
        local_login = context.authenticator.local_login
        if is_local and local_login and (login := local_login.answer_login(request)):
            return login
        _require_whole_form()
        require_page_access(context)
        return None

    @app.after_request
    def finish_response(response: Response) -> Response:
        if g.is_page and not response.cache_control.public:
            # Shared caches must not give one caller's page to another.
            response.vary.update(("Cookie", "Authorization"))
            response.headers.setdefault("Cache-Control", "private, no-cache")
        _set_security_headers(response)
        if is_https:
            response.headers.setdefault("Strict-Transport-Security", f"max-age={HSTS_MAX_AGE_S}")
        _add_etag(response)
        _compress(response)
        response.headers[REQUEST_ID_HEADER] = g.request_id
        _record_request(response, metrics)
        return response


def _require_whole_form() -> None:
    """Refuse a form that is too large or broke off; Werkzeug would use what there is of it."""
    length_header = request.content_length or 0
    request.max_content_length = MAX_FORM_BYTES + 1
    try:
        form_bytes = length_header if length_header > MAX_FORM_BYTES else len(request.get_data())
    except ClientDisconnected:
        abort(400, FORM_INCOMPLETE)
    if form_bytes > MAX_FORM_BYTES:
        abort(413, FORM_TOO_LARGE)
    if form_bytes < length_header:
        abort(400, FORM_INCOMPLETE)


def style_nonce() -> str:
    """Return the nonce of this response, for the style sheet that the chart library creates."""
    if "style_nonce" not in g:
        g.style_nonce = secrets.token_urlsafe(16)
    return str(g.style_nonce)


class TrustedProxies:
    """WSGI middleware: take sender, scheme and user from the headers of a trusted proxy; ignore them from any
    other peer.
    """

    def __init__(self, app: WSGIApplication, networks: Sequence[Network], user_header: str) -> None:
        self._app, self._networks = app, networks
        self._user_key = "HTTP_" + user_header.upper().replace("-", "_")

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ[CAME_THROUGH_PROXY] = any(PROXY_HEADER.fullmatch(name) for name in environ)
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
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(sender)
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


def _host_without_port(header: str) -> str:
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
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)


def _add_etag(response: Response) -> None:
    """Add an ETag and answer 304 where it matches; a page with a nonce differs every time."""
    if response.status_code != 200 or response.direct_passthrough or "style_nonce" in g:
        return
    if "Cache-Control" not in response.headers:
        response.headers["Cache-Control"] = "no-cache"
    if not response.headers.get("ETag"):
        response.add_etag(weak=True)
    response.make_conditional(request)


def _compress(response: Response) -> None:
    is_encoded = "Content-Encoding" in response.headers
    if (
        response.status_code != 200
        or is_encoded
        or response.direct_passthrough
        or not str(response.mimetype).startswith(COMPRESSIBLE_TYPES)
    ):
        return
    response.vary.add("Accept-Encoding")
    body = response.get_data()
    if len(body) >= MIN_COMPRESS_BYTES and request.accept_encodings["gzip"] > 0:
        response.set_data(gzip.compress(body, compresslevel=6, mtime=0))
        response.headers["Content-Encoding"] = "gzip"


def _record_request(response: Response, metrics: RequestMetrics) -> None:
    """Count the request and write its log line: never a query string, a body or a token."""
    duration_s = time.perf_counter() - g.began
    route = request.endpoint or "none"
    method = request.method if request.method in COUNTED_METHODS else "other"
    # An answer does not depend on its count, whose file may lie on a disk that is full.
    with contextlib.suppress(OSError):
        metrics.answered.labels(route, method, str(response.status_code)).inc()
        metrics.seconds.labels(route).observe(duration_s)
    if response.status_code < 500 and request.path.startswith(QUIET_PATHS):
        return
    duration_ms = round(duration_s * 1000, 1)
    REQUEST_LOG.log(
        logging.ERROR if response.status_code >= 500 else logging.INFO,
        "%s %s %d in %.1f ms",
        request.method,
        request.path,
        response.status_code,
        duration_ms,
        extra={
            "request_id": g.request_id,
            "method": request.method,
            "path": request.path,
            "actor": getattr(g.get("actor"), "name", ""),
            "endpoint": request.endpoint or "",
            "status": response.status_code,
            "duration_ms": duration_ms,
            "sender": request.remote_addr or "",
            "sent_bytes": response.content_length or 0,
        },
    )
