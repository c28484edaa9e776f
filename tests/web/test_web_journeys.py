"""Five persons reach their answer in three clicks: on a small store, as on the history of Django."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import journeys
import pytest
from every_format_store import PULL, a_hostile_series, open_every_format_store
from page_reading import P
from playwright.sync_api import Browser, Page
from web_builders import NOW

from perfci.store import Store
from perfci_web import create_app
from perfci_web.page_urls import ProjectLinks
from tests.support.loopback_application import served_on_loopback

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    yield from open_every_format_store(tmp_path_factory.mktemp("journeys"))


@pytest.fixture(scope="module")
def server(small_store: Store) -> Iterator[str]:
    app = create_app(small_store, read_only=False, clock=lambda: NOW)
    with served_on_loopback(app) as url:
        yield url
    app.extensions["perfci"].group_commit.close()


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.context.close()


@pytest.fixture(scope="module")
def series(server: str) -> str:
    return f"{server}{ProjectLinks('acme/tiny-lm').series(a_hostile_series('3.12'))}"


def test_a_lead_finds_the_worst_and_its_owner(page: Page, server: str) -> None:
    seen, detail = journeys.find_worst_and_its_owner(page, f"{server}{P}/")

    assert "+30." in seen
    assert "nobody owns it" in seen
    assert "Is it the code?" in detail


def test_an_author_learns_whether_a_pull_request_is_safe(page: Page, server: str) -> None:
    text = journeys.read_a_pull_request(page, f"{server}{P}/", PULL)

    assert "1 regression" in text or "1 worse" in text
    assert "[+10.0, +30.0]" in text


def test_an_engineer_examines_the_runner(page: Page, series: str) -> None:
    sentence, samples = journeys.suspect_the_runner(page, series, days="")

    assert sentence.startswith("Is it the runner?")
    assert "sample" in samples


def test_an_overlay_keeps_the_range_that_is_looked_at(page: Page, series: str) -> None:
    legend, _ = journeys.overlay_another_place(page, series, "3.13", days="")

    assert "3.12" in legend
    assert "3.13" in legend


def test_a_manager_takes_link_picture_and_table_along(page: Page, series: str) -> None:
    link, picture, table = journeys.take_along_link_picture_and_table(page, series)

    assert urlsplit(link).path == urlsplit(series).path
    assert picture.startswith("<svg ")
    assert table.startswith("commit,committed_at,")


def test_what_is_shared_follows_what_is_looked_at(page: Page, series: str) -> None:
    page.goto(series)
    page.wait_for_selector("figure.interactive")

    page.locator(".view-links a", has_text="log").click()
    page.wait_for_url("**y=log**")

    page.locator(".share > summary").click()
    assert page.locator(".share code").first.inner_text() == page.url
    for name in ("JSON", "CSV", "SVG", "PNG"):
        address = page.locator("footer a", has_text=name).get_attribute("href") or ""
        assert "y=log" in address, name
    overlay = page.locator("td a", has_text="overlay").first.get_attribute("href") or ""
    assert "y=log" in overlay
    elsewhere = page.locator("tr", has=page.locator("td a", has_text="overlay")).locator("th a").first
    assert "y=log" not in (elsewhere.get_attribute("href") or "")
