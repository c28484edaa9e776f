"""Protection against cross-site request forgery: browsers attach credentials to requests of foreign pages
too.
"""

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
    """Refuse a change sent by a page of another origin; clients other than browsers send no origin."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    is_cross_site = site is not None and site not in ("same-origin", "none")
    if is_cross_site or (origin is not None and origin not in own_origins(request, public_url)):
        raise AccessDenied(403, "This change was sent by a page of another origin; only our own pages may.")


def require_token(request: Request, expected: str) -> None:
    """Refuse a change without the CSRF token of the caller."""
    token = request.headers.get(CSRF_HEADER, "")
    if not token and request.mimetype in FORM_TYPES:
        token = request.form.get(CSRF_FIELD, "")
    if not expected or not hmac.compare_digest(token.encode(), expected.encode()):
        raise AccessDenied(
            403, f"The form is too old, or not ours: load the page again (or send {CSRF_HEADER})."
        )


def own_origins(request: Request, public_url: str) -> frozenset[str]:
    """Return the origins of our pages: of this request, and of the public URL."""
    origins = {f"{request.scheme}://{request.host}"}
    if public_url:
        origins.add(origin_of(public_url))
    return frozenset(origins)


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
