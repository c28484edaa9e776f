"""Pictures of public projects on pages of other origins."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browsing import a_server
from flask.testing import FlaskClient
from page_reading import BF16, SERIES, P
from playwright.sync_api import Browser
from web_builders import NOW, PROJECT, a_store, fill

from perfci.store import Store
from perfci.store.projects import create_project
from perfci_web import create_app
from tests.support.png_sizes import read_png_size

PNG_CHART = f"/embed{SERIES}.png{BF16}"
BADGE, PROJECT_BADGE, CHART = f"/badge{SERIES}.svg{BF16}", f"/badge{P}.svg", f"/embed{SERIES}.svg{BF16}"
PICTURES = (BADGE, PROJECT_BADGE, CHART)


@pytest.fixture(scope="module")
def public_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = a_store(tmp_path_factory.mktemp("public"))
    with store.begin() as tx:
        create_project(tx, PROJECT, "public", NOW)
    fill(store)
    yield store
    store.close()


@pytest.fixture(scope="module")
def public_client(public_store: Store) -> FlaskClient:
    return create_app(public_store, clock=lambda: NOW).test_client()


@pytest.mark.parametrize("address", PICTURES)
def test_any_site_and_any_cache_may_have_a_picture(public_client: FlaskClient, address: str) -> None:
    answer = public_client.get(address)

    ElementTree.fromstring(answer.text)
    assert (answer.status_code, answer.mimetype) == (200, "image/svg+xml")
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    )
    assert public_client.get(address, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_a_chart_is_png_under_the_same_rules(public_client: FlaskClient, client: FlaskClient) -> None:
    answer, private = public_client.get(PNG_CHART), client.get(PNG_CHART)

    assert (answer.status_code, answer.mimetype) == (200, "image/png")
    assert read_png_size(answer.data) == (1920, 824)
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    assert public_client.get(PNG_CHART, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304
    assert private.status_code == 404
    assert "public" not in private.headers["Cache-Control"]


def test_badges_say_what_the_pages_say(public_client: FlaskClient) -> None:
    series, project = (
        ElementTree.fromstring(public_client.get(address).text).attrib["aria-label"]
        for address in (BADGE, PROJECT_BADGE)
    )

    assert series == "train.Step.time_step(8, 'bf16'): 14.62 ms · regression +18.3 %"
    assert project == "acme/tiny-lm: 2 open incidents"


@pytest.mark.parametrize("address", PICTURES)
def test_a_private_project_has_no_pictures_even_for_its_members(client: FlaskClient, address: str) -> None:
    private = client.get(address)

    assert private.status_code == 404
    assert private.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "public" not in private.headers["Cache-Control"]


@pytest.mark.parametrize(
    "address", [f"/badge{SERIES}.svg", f"/embed{P}/s/nothing/time.svg", f"/badge{P}/", "/embed/"]
)
def test_what_no_series_is_meant_by_is_not_found(public_client: FlaskClient, address: str) -> None:
    assert public_client.get(address).status_code == 404


@pytest.fixture
def wiki(public_store: Store) -> Iterator[tuple[str, str]]:
    """A page of another origin that asks for permission to embed, and the address of a server of perfci."""
    with a_server(public_store.url) as address:
        server = address.rstrip("/")
        pictures = "".join(f'<img src="{server}{path}">' for path in (*PICTURES, f"{SERIES}.svg{BF16}"))

        class Wiki(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
                self.end_headers()
                self.wfile.write(f"<!doctype html><title>Wiki</title>{pictures}".encode())

            def log_message(self, format: str, *arguments: object) -> None:
                """Write nothing."""

        other = ThreadingHTTPServer(("127.0.0.1", 0), Wiki)
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield f"http://localhost:{other.server_port}/", server
        other.shutdown()
        other.server_close()


def test_a_page_of_another_origin_shows_them(browser: Browser, wiki: tuple[str, str], tmp_path: Path) -> None:
    page = browser.new_page()
    page.goto(wiki[0], wait_until="load")

    widths = page.eval_on_selector_all("img", "images => images.map(image => image.naturalWidth)")
    page.close()

    assert [width > 0 for width in widths] == [True, True, True, False]
    assert widths[2] == 960
