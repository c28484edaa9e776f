"""Static files: ours under names that change with their content, and the basic bundle of plotly.js."""

from __future__ import annotations

import gzip
import hashlib
import threading
from functools import cache
from importlib.resources import files
from pathlib import Path

from flask import Flask, Response, abort, request

from perfci.report.charts.svg_elements import SVG_STYLE
from perfci.report.color_palette import page_palette_css

IMMUTABLE_CACHE_CONTROL = "public, max-age=31536000, immutable"

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}

OWN_FILES = (
    "style.css",
    "charts.css",
    "chart.js",
    "theme.js",
    "navigation.js",
    "incident_keys.js",
    "icon.svg",
)

PLOTLY_FILE = "plotly-basic-4.1.1.min.js"
"""The bundle with scatter, bar and pie traces, of which charts need the first; `make assets` fetches it."""

FAVICON_PATH = "/favicon.ico"

_compress_lock = threading.Lock()


def register_static_files(app: Flask) -> None:
    """Add the route of all static files."""
    app.add_url_rule("/static/<hashed_name>", "asset", serve_asset)
    app.add_url_rule(FAVICON_PATH, "favicon", serve_favicon)


def serve_asset(hashed_name: str) -> Response:
    """Serve a file under the name ``asset_url_path`` returns, 404 under any other."""
    if hashed_name == PLOTLY_FILE:
        return _serve_plotly()
    own_files = {_hashed_name(name): name for name in OWN_FILES}
    if hashed_name not in own_files:
        abort(404, f"There is no file {hashed_name} here.")
    name = own_files[hashed_name]
    response = Response(_read_content(name), content_type=CONTENT_TYPES[Path(name).suffix])
    response.headers["Cache-Control"] = IMMUTABLE_CACHE_CONTROL
    return response


def serve_favicon() -> Response:
    """Serve the icon to browsers that show a JSON or picture, which names none."""
    response = Response(_read_content("icon.svg"), content_type=CONTENT_TYPES[".svg"])
    response.headers["Cache-Control"] = "public, max-age=86400"
    return response


def asset_url_path(name: str) -> str:
    return f"/static/{_hashed_name(name)}"


def plotly_url_path() -> str:
    return f"/static/{PLOTLY_FILE}"


@cache
def _hashed_name(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{hashlib.sha256(_read_content(name)).hexdigest()[:12]}{dot}{suffix}"


@cache
def _read_content(name: str) -> bytes:
    text = (files("perfci_web") / "static" / name).read_bytes()
    return (page_palette_css() + SVG_STYLE).encode() + text if name == "style.css" else text


def _serve_plotly() -> Response:
    """Serve 1.2 MB as 0.4 MB on the wire: compressed once per process, then cached by every browser."""
    if request.accept_encodings["gzip"] > 0:
        with _compress_lock:
            response = Response(_compressed_plotly(), content_type=CONTENT_TYPES[".js"])
        response.headers["Content-Encoding"] = "gzip"
    else:
        response = Response(_read_plotly(), content_type=CONTENT_TYPES[".js"])
    response.headers["Cache-Control"] = IMMUTABLE_CACHE_CONTROL
    response.vary.add("Accept-Encoding")
    response.set_etag(PLOTLY_FILE)
    return response


@cache
def _compressed_plotly() -> bytes:
    return gzip.compress(_read_plotly(), compresslevel=6, mtime=0)


def _read_plotly() -> bytes:
    return (files("perfci_web") / "static" / "vendor" / PLOTLY_FILE).read_bytes()
