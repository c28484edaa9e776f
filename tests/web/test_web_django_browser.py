"""Pages of real measurements in a browser: axe in both schemes, no sideways scroll, legible on paper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import a_server
from crawl_pages import crawl_pages
from playwright.sync_api import Browser, Page

from perfci.report.color_palette import LIGHT
from perfci.store import Store
from perfci_web import create_app
from tests.support.django_store import (
    NOW,
    PROJECT,
    extract_all,
    extract_sample,
    needs_django,
    open_django_store,
)

pytestmark = [needs_django, pytest.mark.browser]

P = f"/{PROJECT}"
STEP = f"{P}/compare/2cace96be6...c9eb16a87e"
SAMPLE = [f"{P}/", f"{P}/incidents/1", STEP, f"{P}/changes?since=all"]
"""Pages with the longest names, of each of which something once was too wide or not legible."""

WIDTHS = (320, 380, 641, 700, 755, 800, 1280)
PHONE = 380

TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
TEXT_COLOURS = """() => [...document.querySelectorAll("h1, h2, td, th, p, dt, dd, caption")]
  .filter(node => node.textContent.trim() && node.getClientRects().length)
  .map(node => getComputedStyle(node).color)"""


FOLDED = """[...document.querySelectorAll("details:not(.share, .menu, .more) > :not(summary)")]
  .filter(node => node.textContent.trim() && !node.getClientRects().length)
  .filter(node => !node.closest(".tabs, .queue-pane"))
  .map(node => node.textContent.trim().slice(0, 60))"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("django-browser")
    with (
        open_django_store(folder, extract_sample(folder)) as store,
        a_server(store.url) as url,
    ):
        yield url.rstrip("/")


def test_a_sample_of_pages_passes_in_dark_on_a_phone(browser: Browser, sample: str) -> None:
    context = browser.new_context(color_scheme="dark", viewport={"width": PHONE, "height": 800})
    page = context.new_page()

    faults = {path: find_faults(page, f"{sample}{path}") for path in SAMPLE}
    context.close()

    assert faults == {path: [] for path in SAMPLE}


@pytest.mark.proof
@pytest.mark.slow
def test_every_page_passes_in_both_schemes_at_every_width(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("django-whole")
    faults = {}
    with open_django_store(folder, extract_all(folder)) as store, a_server(store.url) as url:
        paths = list_pages(store)
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme)
            page = context.new_page()
            for path in paths:
                for width in (1280, PHONE):
                    page.set_viewport_size({"width": width, "height": 900})
                    faults[scheme, width, path] = find_faults(page, f"{url.rstrip('/')}{path}")
            context.close()

    assert len(paths) > 20
    assert {place: found for place, found in faults.items() if found} == {}


def list_pages(store: Store) -> list[str]:
    """One address of each kind of page, and the largest of some."""
    app = create_app(store, clock=lambda: NOW)
    return [address for address, _ in crawl_pages(app, [f"{P}/", *SAMPLE], per_kind=2)]


def find_faults(page: Page, address: str) -> list[str]:
    """What is wrong with a page: rules of axe, widths that scroll sideways, and pale text on paper."""
    page.goto(address)
    violations = Axe().run(page).response["violations"]
    faults = [f"{each['id']}: {each['nodes'][0]['html']}" for each in violations]
    size = page.viewport_size
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate(TOO_WIDE):
            faults.append(f"scrolls sideways at {width} px")
    page.emulate_media(media="print")
    pale = set(page.evaluate(TEXT_COLOURS)) - PRINTED_COLOURS
    faults += [f"stays folded on paper: {text}" for text in page.evaluate(FOLDED)]
    page.emulate_media(media="screen")
    if size is not None:
        page.set_viewport_size(size)
    return faults + [f"prints text in {colour}" for colour in sorted(pale)]


def _format_rgb(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


PRINTED_COLOURS = {_format_rgb(colour) for colour in LIGHT.values()}
"""The colours of the light palette, in which pages are printed whatever the scheme."""
