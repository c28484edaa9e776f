"""What a chat shows of a link to a page: its lasting address, its sentence, and its chart if it is public."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from flask import g, request
from markupsafe import Markup

from perfci.auth.permissions import ANONYMOUS, can_read
from perfci_web.application_context import web_context

PASSING_KEYS = ("changed", "undone")
"""Keys of a query that tell what was just done on a page, not what it shows."""

PICTURE_ENDPOINTS = ("series.series_page",)
"""Pages of which ``/embed`` before the path gives a picture."""


def server_address() -> str:
    """The address of this server as others reach it, without the last slash."""
    return (web_context().settings.server.public_url or request.url_root).rstrip("/")


def canonical_path(extension: str = "") -> str:
    """The path of this page, or of another format of it, and its query without what was just done on it."""
    suffix = f".{extension}" if extension else ""
    path = _format_path().removesuffix("/") if extension else _format_path()
    return f"{request.script_root}{path}{suffix}{_format_query()}"


def canonical_address() -> str:
    """The address of this page for others."""
    return f"{server_address()}{_format_path()}{_format_query()}"


def preview_picture_address() -> str:
    """The address of the picture of this page, which only a public project has; else empty."""
    project = g.get("project")
    if request.endpoint not in PICTURE_ENDPOINTS or project is None or not can_read(ANONYMOUS, project):
        return ""
    return f"{server_address()}/embed{_format_path()}.png{_format_query()}"


def first_heading(page: str) -> str:
    """The text of the first heading of a page."""
    matched = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    return Markup(matched[1]).striptags() if matched else ""


def _format_path() -> str:
    return quote(request.path, safe="/:,;~@!$&'()*+=")


def _format_query() -> str:
    query = [(key, value) for key, value in request.args.items(multi=True) if key not in PASSING_KEYS]
    return f"?{urlencode(query, safe='/:,')}" if query else ""
