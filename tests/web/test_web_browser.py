"""The pages in a real browser, as a reader uses them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from browsing import a_server
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request, Route, expect
from web_builders import COMMITS, FAILED_AT, FASTER, HOSTILE_SUBJECT, NO_ALLOCATOR, STEP, a_commit

from perfci.store import Store
from perfci_web.series.view_model import MAX_ROWS

pytestmark = pytest.mark.browser

LOCAL_TOKEN = "0123456789abcdef"
P = "/acme:tiny-lm"
SERIES = f"{P}/s/train.Step.time_step/cpu_time?p.batch=8&p.dtype='bf16'"
FAILING = f"{P}/s/train.Step.time_step/cpu_time?p.batch=8&p.dtype='fp32'"
UNMEASURED = f"{P}/s/train.Step.time_compiled/cpu_time"
MANY, MANY_BF16 = f"{P}/s/models.Tiny.measure_training", "?p.precision='bf16'&p.batch=4"
UNAVAILABLE = f"{MANY}/mfu{MANY_BF16}"
CHARTLESS = (UNMEASURED, UNAVAILABLE)
EVERY_PAGE = [
    f"{P}/",
    f"{P}/incidents",
    f"{P}/benchmarks",
    f"{P}/benchmarks?show=unavailable",
    f"{MANY}/data_stall{MANY_BF16}",
    UNAVAILABLE,
    SERIES,
    FAILING,
    f"{P}/s/train.Step.track_flops/flops",
    f"{P}/compare",
    f"{P}/noise",
    UNMEASURED,
    f"{P}/compare/{a_commit(STEP - 1).sha}...{a_commit(STEP).sha}",
    f"{P}/compare/{a_commit(2).sha}...{a_commit(FASTER).sha}",
    f"{P}/commit/{a_commit(STEP + 1).sha}",
    f"{P}/b/train.Step.time_step",
]

DESKTOP = {"viewport": {"width": 1200, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}

WATCH_POLICY = """
addEventListener("securitypolicyviolation", (event) => {
  (window.broken ??= []).push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


@dataclass
class Reader:
    """A tab that remembers everything it should not have seen."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.url}{path}")
        return self.page

    def charted(self, path: str) -> Page:
        """Open a series page and wait until the interactive chart has replaced the drawn one."""
        self.open(path)
        self.page.wait_for_selector("figure.interactive")
        return self.page

    def heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def failed(self, error: Error) -> None:
        self.complaints.append(str(error))

    def record_request(self, request: Request) -> None:
        self.loaded.append(urlsplit(request.url).path)
        if not request.url.startswith((self.url, "data:")):
            self.strangers.append(request.url)

    def assert_content(self) -> None:
        assert self.complaints == []
        assert self.strangers == []
        assert self.page.evaluate("window.broken ?? []") == []


@contextmanager
def reading(tab: Page, url: str) -> Iterator[Reader]:
    """Read in a tab that others have read in: it forgets what they chose, and keeps what it has loaded."""
    tab.context.clear_cookies()
    tab.mouse.move(0, 0)
    reader = Reader(tab, url)
    listeners: dict[Any, Callable[[Any], None]] = {
        "console": reader.heard,
        "pageerror": reader.failed,
        "request": reader.record_request,
    }
    for event, listener in listeners.items():
        tab.on(event, listener)
    yield reader
    reader.assert_content()
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)


@pytest.fixture(scope="module")
def tabs(browser: Browser) -> Iterator[dict[str, Page]]:
    """One tab at a desk and one on a phone: to open another costs more than to load a page."""
    contexts = {
        name: browser.new_context(**options) for name, options in {"desktop": DESKTOP, "phone": PHONE}.items()
    }
    for context in contexts.values():
        context.add_init_script(WATCH_POLICY)
    yield {name: context.new_page() for name, context in contexts.items()}
    for context in contexts.values():
        context.close()


@pytest.fixture
def reader(tabs: dict[str, Page], url: str) -> Iterator[Reader]:
    with reading(tabs["desktop"], url) as reader:
        yield reader


@pytest.fixture
def reader_on_a_phone(tabs: dict[str, Page], url: str) -> Iterator[Reader]:
    with reading(tabs["phone"], url) as reader:
        yield reader


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_loads_every_page_without_console_errors(reader: Reader, path: str) -> None:
    page = reader.charted(path) if "/s/" in path and path not in CHARTLESS else reader.open(path)

    expect(page.locator("h1")).to_be_visible()


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_fits_every_page_on_a_phone(reader_on_a_phone: Reader, path: str) -> None:
    open_it = reader_on_a_phone.charted if "/s/" in path and path not in CHARTLESS else reader_on_a_phone.open

    page = open_it(path)
    for place in ("main", "header"):  # in this order: an open menu of the bar covers what is below
        for summary in page.locator(f"{place} summary").all():
            summary.click()

    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_shows_every_page_without_javascript(browser: Browser, url: str) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()

    for path in EVERY_PAGE:
        page.goto(f"{url}{path}")
        expect(page.locator("h1")).not_to_be_empty()
    page.goto(f"{url}{SERIES}")
    expect(page.locator("svg.pc-trend").first).to_be_visible()
    page.get_by_text("The newest 30 of 40 commits as a table").click()
    expect(page.get_by_role("row")).to_have_count(MAX_ROWS + 3)
    page.context.close()


def test_replaces_the_svg_chart_by_plotly_in_place(reader: Reader) -> None:
    page = reader.open(SERIES)
    drawn = page.locator(".canvas .wide svg.pc-trend")
    before = page.locator(".canvas").bounding_box()
    page.wait_for_selector("figure.interactive .js-plotly-plot, figure.interactive .plot")

    expect(page.locator(".plot .main-svg").first).to_be_visible()
    assert drawn.evaluate("svg => getComputedStyle(svg).visibility") == "hidden"
    assert page.locator(".canvas").bounding_box() == before


def test_starts_the_axis_of_both_charts_at_the_same_value(reader: Reader) -> None:
    page = reader.charted(FAILING)

    drawn = re.search(r"y starts at [\d.]+ ms", page.locator(".wide svg.pc-trend").text_content() or "")

    assert drawn
    expect(page.locator(".plot")).to_contain_text(drawn[0])


def test_draws_every_commit_and_failed_commits_below(reader: Reader) -> None:
    page = reader.charted(FAILING)

    assert page.locator(".plot .subplot.xy .scatterlayer .trace path.point").count() == COMMITS - 3
    assert page.locator(".plot .subplot.xy2 .scatterlayer .trace path.point").count() == 3


def test_offers_no_button_that_uploads_data(reader: Reader) -> None:
    page = reader.charted(SERIES)

    assert page.locator(".modebar-btn").count() == 0
    assert "plot.ly" not in page.content()
    assert "Share" not in page.locator("figure.chart").inner_text()


def test_shows_the_subject_of_a_commit_on_hover(reader: Reader) -> None:
    page = reader.charted(SERIES)
    x, y = place_of(page, STEP + 1)

    page.mouse.move(x, y)

    expect(page.locator(".readout p")).to_contain_text(HOSTILE_SUBJECT)
    expect(page.locator(".readout p")).to_contain_text(
        re.compile(r"14\.\d\d ms \([+−]\d\.\d % against the commit before\)")
    )
    assert page.locator(".readout script, .readout p b b").count() == 0


def test_navigates_the_chart_by_keyboard(reader: Reader) -> None:
    page = reader.charted(SERIES)
    element = page.locator(".readout p")
    page.locator(".plot").focus()

    page.keyboard.press("Home")
    expect(element).to_contain_text(a_commit(0).sha[:7])
    page.keyboard.press("ArrowRight")
    expect(element).to_contain_text(a_commit(1).sha[:7])
    page.keyboard.press("Shift+ArrowRight")
    expect(element).to_contain_text(a_commit(STEP).sha[:7])
    expect(element).to_contain_text("(+18.3 % here)")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/commit/{a_commit(STEP).sha}")


def test_reaches_failed_commits_by_keyboard(reader: Reader) -> None:
    page = reader.charted(FAILING)
    page.locator(".plot").focus()
    page.keyboard.press("Home")
    for _ in range(FAILED_AT):
        page.keyboard.press("ArrowRight")

    expect(page.locator(".readout p")).to_contain_text("Tried to allocate 512 MiB <b>at once</b>)")


def test_names_the_commits_of_a_zoom_and_resets_it(reader: Reader) -> None:
    page = reader.charted(SERIES)
    whole = page.evaluate("document.querySelector('.plot').layout.xaxis.range")
    (x0, y0), (x1, y1) = place_of(page, 5), place_of(page, 15)

    page.mouse.move(x0, y0 - 30)
    page.mouse.down()
    page.mouse.move(x1, y1 + 30, steps=5)
    page.mouse.up()
    expect(page.locator(".caption")).to_contain_text("more outside this range")

    zoomed = page.evaluate("document.querySelector('.plot').layout.xaxis.range")
    first, last = (parse_qs(urlsplit(page.url).query)[key][0] for key in ("from", "to"))
    assert [a_commit(n).sha[:10] for n in (5, 15)] == [first, last]
    expect(page.locator(".plot")).to_contain_text(first[:7])
    page.reload()
    page.wait_for_selector("figure.interactive")
    assert page.evaluate("document.querySelector('.plot').layout.xaxis.range") == zoomed
    page.get_by_role("button", name="Switch to dark colours").click()
    page.goto(f"{reader.url}{P}/")
    page.go_back()
    page.wait_for_selector("figure.interactive")
    assert page.evaluate("document.querySelector('.plot').layout.xaxis.range") == zoomed
    page.get_by_role("link", name="all", exact=True).click()
    expect(page.locator(".caption")).not_to_contain_text("outside this range")
    assert page.evaluate("document.querySelector('.plot').layout.xaxis.range") == whole
    assert "from=" not in page.url


def test_axis_range_and_pin_outlive_theme_reload_and_the_way_back(reader: Reader) -> None:
    page = reader.charted(SERIES)
    (x0, y0), (x1, y1) = place_of(page, 5), place_of(page, 25)
    page.mouse.move(x0, y0 - 30)
    page.mouse.down()
    page.mouse.move(x1, y1 + 30, steps=5)
    page.mouse.up()
    expect(page.locator(".caption")).to_contain_text("more outside this range")
    page.locator(".plot").focus()
    for key in ("Home", "Shift+ArrowRight", "p"):
        page.keyboard.press(key)
    expect(page.locator(".panel [data-sha]")).to_have_attribute("data-sha", a_commit(STEP).sha)
    page.keyboard.press("l")
    expect(page.locator(".plot")).to_contain_text("log scale")
    expect(page.locator(".canvas.loading")).to_have_count(0)
    address, looked_at = page.url, read_chart(page)
    assert looked_at["dots"] == 21  # from the sixth commit to the twenty-sixth

    page.locator("#theme").click()
    assert read_chart(page) == looked_at
    page.reload()
    page.wait_for_selector("figure.interactive")
    assert (page.url, read_chart(page)) == (address, looked_at)
    page.locator(".panel [data-sha] a").first.click()
    page.go_back()
    page.wait_for_selector("figure.interactive")
    assert (page.url, read_chart(page)) == (address, looked_at)
    expect(page.locator(".panel [data-sha]")).to_have_attribute("data-sha", a_commit(STEP).sha)


def test_the_caption_counts_the_dots_that_are_drawn(reader: Reader) -> None:
    page = reader.charted(SERIES)

    for days in ("all", "30 d"):
        page.get_by_role("link", name=days, exact=True).click()
        expect(page.locator(".canvas.loading")).to_have_count(0)
        shown = read_chart(page)
        assert shown["caption"].startswith(f"{shown['dots']} commits, one dot each")


def read_chart(page: Page) -> dict[str, Any]:
    """What the chart shows: its ranges, how many dots, and its caption."""
    shown: dict[str, Any] = page.evaluate(
        """() => {
          const { data, layout } = document.querySelector('.plot');
          const dots = data.find((trace) => trace.customdata?.length).x.length;
          const caption = document.querySelector('.caption').textContent;
          return { x: layout.xaxis.range, y: layout.yaxis.range, dots, caption };
        }"""
    )
    return shown


def test_starts_the_axis_at_zero_on_request_and_labels_its_start(reader: Reader) -> None:
    page = reader.charted(SERIES)
    expect(page.locator(".plot")).to_contain_text("y starts at 11.")
    link = page.get_by_role("link", name="from 0")

    link.click()

    expect(page.locator(".plot")).to_contain_text("y starts at 0")
    assert page.evaluate("document.querySelector('.plot').layout.yaxis.range[0]") == 0
    expect(link).to_have_attribute("aria-current", "true")
    assert page.url.endswith("&y=zero")
    page.locator(".plot").focus()
    page.keyboard.press("l")
    expect(page.locator(".plot")).to_contain_text("log scale")


def test_the_way_from_a_commit_to_its_link_does_not_change_it(reader: Reader) -> None:
    page = reader.charted(SERIES)
    page.mouse.click(*place_of(page, STEP))
    panel = page.locator(".panel")
    expect(panel.locator("[data-sha]")).to_have_attribute("data-sha", a_commit(STEP).sha)
    box = panel.locator("[data-sha] a").bounding_box()
    assert box

    page.mouse.move(box["x"] + 10, box["y"] + 5, steps=40)
    expect(panel.locator("[data-sha]")).to_have_attribute("data-sha", a_commit(STEP).sha)
    assert f"pin={a_commit(STEP).sha[:10]}" in page.url
    page.reload()
    expect(panel).to_contain_text("got 18.3 % slower [15.9, 20.8], confirmed on new pairs")
    page.wait_for_selector("figure.interactive")
    page.keyboard.press("Escape")
    expect(panel).to_contain_text("Click a commit to pin it here.")
    assert "pin=" not in page.url
    page.mouse.click(*place_of(page, STEP))
    panel.locator("[data-sha] a").click()
    page.wait_for_url(f"**/commit/{a_commit(STEP).sha}")


def test_a_late_reply_does_not_replace_a_newer_one(reader: Reader) -> None:
    page = reader.charted(SERIES)
    held: list[Route] = []
    page.route("**/figure?*y=log*", lambda route: held.append(route))

    page.get_by_role("link", name="log", exact=True).click()
    page.get_by_role("link", name="from 0").click()
    expect(page.locator(".plot")).to_contain_text("y starts at 0")
    for route in held:
        route.continue_()
    page.wait_for_load_state("networkidle")

    expect(page.locator(".plot")).to_contain_text("y starts at 0")
    page.unroute("**/figure?*y=log*")


def test_keeps_the_chart_when_a_range_cannot_be_loaded(browser: Browser, url: str) -> None:
    page = browser.new_page()
    page.goto(f"{url}{SERIES}")
    page.wait_for_selector("figure.interactive")
    page.route("**/figure?*", lambda route: route.fulfill(status=500))

    page.get_by_role("link", name="log", exact=True).click()

    expect(page.locator(".readout")).to_contain_text("could not be loaded for this range")
    expect(page.locator(".plot")).to_contain_text("y starts at 11.")
    page.context.close()


def test_ctrl_and_wheel_zooms_and_the_wheel_alone_scrolls(reader: Reader) -> None:
    page = reader.charted(SERIES)
    page.mouse.move(*place_of(page, STEP))
    page.mouse.wheel(0, -120)
    assert "from=" not in page.url

    page.keyboard.down("Control")
    page.mouse.move(*place_of(page, STEP))
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")

    expect(page.locator(".caption")).to_contain_text("more outside this range")
    assert "from=" in page.url


def test_prints_on_white_from_the_dark_theme(reader: Reader) -> None:
    page = reader.charted(SERIES)
    page.get_by_role("button", name="Switch to dark colours").click()
    page.emulate_media(media="print")

    ink = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    picture = page.locator(".canvas > .wide")
    visibility = picture.evaluate("element => getComputedStyle(element).visibility")

    page.emulate_media(media="screen")
    assert ink == "rgb(26, 29, 33)"
    assert visibility == "visible"


def test_keeps_the_svg_chart_if_plotly_does_not_load(browser: Browser, url: str) -> None:
    page = browser.new_page()
    page.route("**/plotly-*", lambda route: route.abort())
    page.goto(f"{url}{SERIES}")

    expect(page.locator(".readout")).to_contain_text("could not be loaded; the picture above shows the same")
    expect(page.locator("svg.pc-trend").first).to_be_visible()
    page.context.close()


def test_loads_plotly_only_on_pages_with_a_chart(reader: Reader) -> None:
    for path in (f"{P}/", f"{P}/benchmarks", f"{P}/commit/{a_commit(STEP).sha}", *CHARTLESS):
        reader.open(path)
        reader.page.wait_for_load_state("networkidle")

    assert not [path for path in reader.loaded if "plotly" in path]


def test_follows_the_color_scheme_of_the_reader(reader: Reader) -> None:
    page = reader.charted(SERIES)
    paper = "getComputedStyle(document.body).backgroundColor"
    ticks = "getComputedStyle(document.querySelector('.plot .annotation-text')).fill"
    light = page.evaluate(paper), page.evaluate(ticks)

    page.get_by_role("button", name="Switch to dark colours").click()
    page.wait_for_function(f"{ticks} !== {json.dumps(light[1])}")

    assert page.evaluate(paper) != light[0]
    page.goto(f"{reader.url}{P}/")
    assert page.evaluate(paper) != light[0]
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_opens_a_search_result(reader: Reader) -> None:
    page = reader.open(f"{P}/benchmarks")

    page.get_by_label("Search", exact=True).fill("token")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="serve.Generate.time_token").click()

    expect(page.locator("h1")).to_contain_text("serve.Generate.time_token is ")


def test_explains_why_a_series_was_never_measured(reader: Reader) -> None:
    page = reader.open(f"{P}/benchmarks")

    page.get_by_role("link", name="why").click()
    expect(page.get_by_text(NO_ALLOCATOR)).to_be_visible()
    page.get_by_role("link", name="peak_allocated_bytes").click()

    expect(page.locator("h1")).to_contain_text("peak_allocated_bytes cannot be measured on this machine")


def test_draws_shares_on_a_percent_axis_in_both_charts(reader: Reader) -> None:
    page = reader.charted(f"{MANY}/data_stall{MANY_BF16}")

    drawn = re.search(r"y starts at [\d.]+ %", page.locator(".wide svg.pc-trend").text_content() or "")

    assert drawn
    expect(page.locator(".plot")).to_contain_text(drawn[0])


def test_shows_the_keyboard_focus(reader: Reader) -> None:
    page = reader.open(f"{P}/")

    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Tab")

    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def place_of(page: Page, index: int) -> tuple[float, float]:
    """Where a commit's dot lies on the screen."""
    value = page.evaluate(
        """index => {
          const plot = document.querySelector('.plot'), { xaxis, yaxis } = plot._fullLayout;
          const box = plot.getBoundingClientRect(), dots = plot.data[3];
          const y = dots.y[dots.x.indexOf(index)];
          return [box.left + xaxis._offset + xaxis.l2p(index), box.top + yaxis._offset + yaxis.l2p(y)];
        }""",
        index,
    )
    return value[0], value[1]


def test_the_printed_address_logs_a_browser_in(browser: Browser, store: Store) -> None:
    with a_server(store.url, writable=True, token=LOCAL_TOKEN) as url, browser.new_context() as context:
        page = context.new_page()
        unknown = page.goto(url)
        page.goto(f"{url}?token={LOCAL_TOKEN}")
        page.get_by_role("link", name="Incidents").first.click()
        status = page.evaluate(
            "fetch('/api/v1/projects/acme:tiny-lm', {method: 'PATCH', body: '{\"archived\": false}',"
            " headers: {'Content-Type': 'application/json'}}).then(answer => answer.status)"
        )
        address, cookies = page.url, page.evaluate("document.cookie")

    assert unknown is not None
    assert (unknown.status, status, cookies) == (401, 200, "")
    assert (address.endswith("/acme:tiny-lm/incidents"), "token" in address) == (True, False)
