"""What people come to the dashboard for, as scripts that count clicks and read the answer on the page."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from playwright.sync_api import Locator, Page, expect

MOST_CLICKS = 3
"""How many clicks may lie between a person and an answer."""


NEWEST_DOT = """() => {
    const plot = document.querySelector(".plot"), layout = plot._fullLayout;
    const dots = plot.data.find((trace) => trace.customdata?.length);
    const last = dots.x.indexOf(Math.max(...dots.x)), box = plot.getBoundingClientRect();
    return [box.x + layout.xaxis._offset + layout.xaxis.l2p(dots.x[last]),
            box.y + layout.yaxis._offset + layout.yaxis.l2p(dots.y[last])];
}"""
"""Where on the screen the newest dot is."""


@dataclass
class Journey:
    """One person's way through the pages in one tab."""

    page: Page
    name: str
    clicks: int = 0
    keys: int = 0
    started: float = field(default_factory=time.monotonic)

    def open(self, address: str) -> None:
        """Come from outside: a bookmark, or the link in a comment."""
        self.page.goto(address)

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def press(self, keys: str) -> None:
        for key in keys.split():
            self.page.keyboard.press(key)
            self.keys += 1

    def text(self, selector: str = "main") -> str:
        """What a reader sees there, one space at a time."""
        return re.sub(r"\s+", " ", self.page.locator(selector).first.inner_text())

    def finish(self) -> None:
        """Print clicks, keys and seconds, and hold the clicks to the bar."""
        seconds = time.monotonic() - self.started
        print(f"journey | {self.name} | {self.clicks} clicks | {self.keys} keys | {seconds:.1f} s")
        assert self.clicks <= MOST_CLICKS, self.name


def find_worst_and_its_owner(page: Page, overview: str) -> tuple[str, str]:
    """The lead on Monday: what is worst, how much, since which commit, and whose is it?

    Returns what the overview says of the worst incident, and what its own page says.
    """
    journey = Journey(page, "lead: the worst, since when, whose")
    journey.open(overview)
    worst = page.locator("li, tr, article", has=page.locator("a[href*='/incidents/']")).first
    seen = re.sub(r"\s+", " ", worst.inner_text())
    journey.click(page.locator("main a[href*='/incidents/']").first)
    expect(page.locator(".kicker")).to_contain_text("Incidents / #")
    detail = journey.text()
    journey.finish()
    return seen, detail


def read_a_pull_request(page: Page, overview: str, number: str) -> str:
    """The author of a pull request: may it be merged, where is it slower, how sure is that?"""
    journey = Journey(page, "author: is my pull request safe")
    journey.open(overview)
    journey.click(page.locator("details.more > summary"))
    journey.click(page.locator("details.more a", has_text="Pull requests"))
    journey.click(page.locator(f"main a[href$='/pr/{number}'], main a[href*='pr:{number}']").first)
    expect(page.locator("h1")).to_be_visible()
    text = journey.text()
    journey.finish()
    return text


def suspect_the_runner(page: Page, series: str, days: str = "90 d") -> tuple[str, str]:
    """The engineer: is it the runner? The last fifty commits, and the samples of one of them.

    Returns what the page says of the runner, and the page of the samples.
    """
    journey = Journey(page, "engineer: is it the runner, 50 commits, samples")
    journey.open(series)
    sentence = journey.text("section:has(h2:text('Is it the runner?'))")
    _wait_for_chart(page)
    if days:
        journey.click(page.locator(".view-links a", has_text=days))
        page.wait_for_url("**from=**")
        expect(page.locator(".canvas.loading")).to_have_count(0)
    _click_a_dot(journey)
    expect(page.locator("aside.panel")).to_contain_text("samples")
    journey.click(page.locator("aside.panel a", has_text="samples"))
    page.wait_for_url("**/point/**")
    samples = journey.text()
    journey.finish()
    return sentence, samples


def overlay_another_place(page: Page, series: str, place: str, days: str = "90 d") -> tuple[str, str]:
    """The engineer: another machine or variant in the same chart, over the same commits.

    Returns the legend and the caption of the chart with both.
    """
    journey = Journey(page, f"engineer: {place} over it, the same commits")
    journey.open(series)
    _wait_for_chart(page)
    if days:
        journey.click(page.locator(".view-links a", has_text=days))
        page.wait_for_url("**from=**")
    row = page.locator("tr", has=page.locator("th", has_text=place)).last
    journey.click(row.locator("a", has_text="overlay"))
    page.wait_for_url("**overlay=**")
    _wait_for_chart(page)
    legend, caption = journey.text(".legend"), journey.text("figcaption .caption")
    if days:
        assert "from=" in page.url  # the range is still that of before
    journey.finish()
    return legend, caption


def take_along_link_picture_and_table(page: Page, series: str) -> tuple[str, str, str]:
    """The manager: a link, a picture and a table of what is seen; returns all three."""
    journey = Journey(page, "manager: link, picture, CSV")
    journey.open(series)
    _wait_for_chart(page)
    journey.click(page.locator(".share > summary"))
    link = journey.text(".share code")
    addresses = [
        page.locator("footer a", has_text=re.compile(f"^{name}$")).get_attribute("href") or ""
        for name in ("SVG", "CSV")
    ]
    journey.clicks += len(addresses)  # a click each saves the file; here it is fetched
    picture, table = (page.request.get(f"{_origin(page)}{address}") for address in addresses)
    assert (picture.status, table.status) == (200, 200)
    journey.finish()
    return link, picture.text(), table.text()


def answer_three_incidents(page: Page, incidents: str) -> list[str]:
    """The engineer on call: three incidents by keyboard, two of them undone; returns what the list says."""
    journey = Journey(page, "on call: three incidents by keyboard, two undone")
    journey.open(incidents)
    titles = [title.inner_text() for title in page.locator("a.title").all()[:3]]
    journey.press("j")
    for key in ("v", "e", "i"):
        with page.expect_navigation():
            journey.press(key)
    for _ in range(2):
        with page.expect_navigation():
            journey.press("u")
    assert page.url.partition("?")[0].endswith("/incidents")
    states = [
        re.sub(
            r"\s+",
            " ",
            page.locator("li, article", has=page.get_by_role("link", name=title)).last.inner_text(),
        )
        for title in titles
    ]
    journey.finish()
    return states


def _wait_for_chart(page: Page) -> None:
    page.wait_for_selector("figure.interactive")


def _click_a_dot(journey: Journey) -> None:
    """Click the newest dot of the chart, where plotly.js has drawn it."""
    x, y = journey.page.evaluate(NEWEST_DOT)
    journey.page.mouse.click(x, y)
    journey.clicks += 1


def _origin(page: Page) -> str:
    return "/".join(page.url.split("/")[:3])
