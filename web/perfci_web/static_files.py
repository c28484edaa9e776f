"""Files a page loads: ours under a name that changes with their content, and plotly.js out of the installed package."""

from __future__ import annotations

import gzip
import hashlib
import threading
from functools import cache
from importlib import metadata
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from flask import Flask, Response, abort, request

from perfci.report.charts.palette import page_css
from perfci.report.charts.svg_elements import STYLE
from perfci_web.middleware import takes_gzip

FOREVER = "public, max-age=31536000, immutable"

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}

OURS = ("style.css", "chart.js", "theme.js", "incident_keys.js", "icon.svg")

_packing = threading.Lock()


def serve_assets(app: Flask) -> None:
    """Add the one route every file comes from."""
    app.add_url_rule("/static/<name>", "asset", asset)


def asset(name: str) -> Response:
    """A file under the name ``asset_path`` gave it; under any other name there is nothing."""
    if name == plotly_name():
        return _plotly()
    known = {_hashed(own): own for own in OURS}
    if name not in known:
        abort(404, f"There is no file {name} here.")
    own = known[name]
    response = Response(_content(own), content_type=TYPES[Path(own).suffix])
    response.headers["Cache-Control"] = FOREVER
    return response


def asset_path(name: str) -> str:
    return f"/static/{_hashed(name)}"


def plotly_path() -> str:
    return f"/static/{plotly_name()}"


@cache
def plotly_name() -> str:
    return f"plotly-{metadata.version('plotly')}.min.js"


@cache
def _hashed(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{hashlib.sha256(_content(name)).hexdigest()[:12]}{dot}{suffix}"


@cache
def _content(name: str) -> bytes:
    text = (files("perfci_web") / "static" / name).read_bytes()
    return (page_css() + STYLE).encode() + text if name == "style.css" else text


def _plotly() -> Response:
    """4.8 MB as it lies in the package, 1.5 MB on the wire: packed once per process, then kept by every browser."""
    if takes_gzip(request):
        with _packing:
            response = Response(_packed_plotly(), content_type=TYPES[".js"])
        response.headers["Content-Encoding"] = "gzip"
    else:
        response = Response(_plotly_file().read_bytes(), content_type=TYPES[".js"])
    response.headers["Cache-Control"] = FOREVER
    response.vary.add("Accept-Encoding")
    response.set_etag(plotly_name())
    return response


@cache
def _packed_plotly() -> bytes:
    return gzip.compress(_plotly_file().read_bytes(), compresslevel=6, mtime=0)


def _plotly_file() -> Path:
    """Found without importing the package, which takes a while and is not needed here."""
    found = find_spec("plotly")
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
