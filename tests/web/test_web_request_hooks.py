"""How an answer travels: headers, names of the host, packing, caches, the theme, a path to be mounted
below.
"""

import gzip
import hashlib
import re

import pytest
from flask.testing import FlaskClient
from page_reading import BF16, EVERY_PAGE, SERIES, P, read

from perfci.store import Store
from perfci_web import create_app

PLOTLY_SHA256 = "99784e3abfb07b142a15e521a439e6d9addceadb3f79553fd24c72774f0649ba"
"""Of `plotly-basic.min.js` in plotly.js-basic-dist-min 4.1.1, whose archive `make assets` checks."""


def test_checks_health_with_one_query(client: FlaskClient) -> None:
    assert client.get("/healthz").get_json() == {"status": "ok"}


def test_sends_restrictive_security_headers(client: FlaskClient) -> None:
    for path in [*EVERY_PAGE, "/nobody:home/", f"{SERIES}.json{BF16}"]:
        headers = client.get(path).headers
        policy = dict(part.partition(" ")[::2] for part in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_sends_a_fresh_style_nonce_on_chart_pages_only(client: FlaskClient) -> None:
    first, second = (client.get(f"{SERIES}{BF16}") for _ in range(2))
    nonce = re.search("nonce-([^']+)'", first.headers["Content-Security-Policy"])

    assert nonce
    assert f'nonce="{nonce[1]}"' in first.text
    assert nonce[1] not in second.headers["Content-Security-Policy"]
    assert "nonce" not in client.get(f"{P}/").headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8787", 200),
        ("127.0.0.1:8787", 200),
        ("[::1]:8787", 200),
        ("LOCALHOST", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:80", 403),
        ("", 403),
        ("[::2]", 403),
    ],
)
def test_refuses_other_host_names_on_loopback(empty_store: Store, host: str, status: int) -> None:
    client = create_app(empty_store, loopback_only=True).test_client()

    assert client.get("/healthz", headers={"Host": host}).status_code == status


def test_accepts_any_host_name_on_a_public_server(empty_store: Store) -> None:
    client = create_app(empty_store).test_client()

    assert client.get("/healthz", headers={"Host": "perf.example"}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_refuses_changes_on_a_read_only_server(client: FlaskClient, method: str) -> None:
    assert client.open(f"{P}/", method=method).status_code == 405


def test_answers_304_for_an_unchanged_page(client: FlaskClient) -> None:
    first = client.get(f"{P}/benchmarks")
    again = client.get(f"{P}/benchmarks", headers={"If-None-Match": first.headers["ETag"]})

    assert (again.status_code, again.data) == (304, b"")


def test_compresses_pages_where_the_browser_accepts_it(client: FlaskClient) -> None:
    packed = client.get(f"{P}/", headers={"Accept-Encoding": "gzip"})

    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data).decode() == read(client, f"{P}/")
    assert "Content-Encoding" not in client.get(f"{P}/", headers={"Accept-Encoding": "gzip;q=0"}).headers


def test_caches_static_files_forever_under_hashed_names(client: FlaskClient) -> None:
    html = read(client, f"{SERIES}{BF16}")
    files = set(re.findall(r'(/static/[^"]+)', html))

    assert len(files) == 7
    for path in files:
        answer = client.get(path)
        assert "immutable" in answer.headers["Cache-Control"], path
    assert client.get("/static/style.css").status_code == 404
    assert client.get("/static/..%2fguards.py").status_code == 404


def test_serves_the_pinned_basic_bundle_of_plotly(client: FlaskClient) -> None:
    path = re.search(r'data-plotly="([^"]+)"', read(client, f"{SERIES}{BF16}"))
    assert path
    packed = client.get(path[1], headers={"Accept-Encoding": "gzip"})
    existing = {"Accept-Encoding": "gzip", "If-None-Match": packed.headers["ETag"]}

    assert len(packed.data) < 420_000
    assert hashlib.sha256(gzip.decompress(packed.data)).hexdigest() == PLOTLY_SHA256
    assert client.get(path[1], headers=existing).status_code == 304


def test_renders_the_theme_of_the_cookie(client: FlaskClient) -> None:
    client.set_cookie("perfci-theme", "dark")
    dark = read(client, f"{P}/")
    client.set_cookie("perfci-theme", '"><script>')
    other = read(client, f"{P}/")
    client.delete_cookie("perfci-theme")

    assert '<html lang="en" data-theme="dark">' in dark
    assert '<html lang="en">' in other


def test_can_be_mounted_below_a_path(client: FlaskClient) -> None:
    html = client.get(f"{P}/", base_url="http://localhost/perf").text

    links = re.findall(r'(?:href|src)="([^"#]+)"', html)
    assert links
    assert all(link.startswith("/perf/") for link in links)
