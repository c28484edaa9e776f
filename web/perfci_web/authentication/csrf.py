"""A change must come from our own page: a browser sends what proves who one is with every request, asked or not."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from flask import Request

from perfci.auth.permissions import AccessDenied

READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing; every other one needs the checks below."""

CSRF_FIELD = "csrf"
CSRF_HEADER = "X-CSRF-Token"
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")


def require_own_page(request: Request, public_url: str) -> None:
    """Refuse a change that a page of somebody else sent; a program that is no browser names no page at all."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    elsewhere = site is not None and site not in ("same-origin", "none")
    if elsewhere or (origin is not None and origin not in own_origins(request, public_url)):
        raise AccessDenied(403, "This change was sent by a page of another origin; only our own pages may.")


def require_token(request: Request, expected: str) -> None:
    """Refuse a change without the secret that only our own pages know."""
    given = request.headers.get(CSRF_HEADER, "")
    if not given and request.mimetype in FORM_TYPES:
        given = request.form.get(CSRF_FIELD, "")
    if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
        raise AccessDenied(
            403, f"The form is too old, or not ours: load the page again (or send {CSRF_HEADER})."
        )


def own_origins(request: Request, public_url: str) -> frozenset[str]:
    """Where our pages live: at the address of this request, and at the one we are published under."""
    named = f"{request.scheme}://{request.host}"
    return frozenset({named, origin_of(public_url)} if public_url else {named})


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
