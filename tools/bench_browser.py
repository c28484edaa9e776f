"""What a reader waits for: first paint, interactive chart, layout shift and zoom of pages in Chromium.

    python -m tools.bench_browser [--store URL] [--loads 20]

Without a store, one of 60 series over 1,700 commits is filled. Each page is loaded in a fresh profile from a
server in a process of its own, so that nothing is cached. Figures are the 95th percentile of the loads.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from playwright.sync_api import Browser, Page

from perfci.store import Store, open_store
from perfci.store.projects import load_projects
from perfci.store.queries.series_commits_machines import (
    load_commits_by_id,
    load_project_series,
    sort_commits,
)
from perfci_web.page_urls import ProjectLinks, encode_project_segment
from tests.web.browsing import a_browser, a_server
from tools.bench_pages import fill_deep_store, store_incidents
from tools.print_bench_figures import Figure, print_figures_and_exit

PAINT_MS, INTERACTIVE_MS, ZOOM_MS, SHIFT = 600.0, 1200.0, 150.0, 0.05
WAIT_MS = 15_000

FILLED = (60, 1700)
"""Series and commits of the store that is filled."""

OBSERVE = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
const watch = () => {
  if (document.querySelector("figure.interactive")) window.interactiveAt = performance.now();
  else requestAnimationFrame(watch);
};
requestAnimationFrame(watch);
"""

READ = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
  interactive: window.interactiveAt ?? null,
  shift: window.shift,
})"""

ZOOM = """async () => {
  const plot = document.querySelector(".plot");
  const caption = document.querySelector(".caption");
  const [low, high] = plot.layout.xaxis.range;
  const before = caption.textContent;
  const began = performance.now();
  Plotly.relayout(plot, { "xaxis.range": [low + 0.4 * (high - low), low + 0.6 * (high - low)] });
  while (caption.textContent === before && performance.now() - began < 10000)
    await new Promise(requestAnimationFrame);
  return performance.now() - began;
}"""


@dataclass(frozen=True)
class Load:
    """What one load of a page took, in milliseconds; the layout shift is a share of the window."""

    paint_ms: float
    shift: float
    interactive_ms: float | None = None
    zoom_ms: float | None = None


def list_addresses(store: Store) -> dict[str, str]:
    """The pages of the project of a store, those with a chart named so."""
    with store.read() as tx:
        project = load_projects(tx)[0].slug
        series = list(load_project_series(tx, project).values())
        commits = sort_commits(load_commits_by_id(tx).values())
    links, root = ProjectLinks(project), f"/{encode_project_segment(project)}"
    return {
        "overview": f"{root}/",
        "benchmarks": f"{root}/benchmarks",
        "series with chart": links.series(series[len(series) // 2]),
        "incidents": f"{root}/incidents",
        "commit": links.commit(commits[-1].sha),
        "compare": links.compare(commits[-2].sha, commits[-1].sha),
    }


def load_page(browser: Browser, address: str, *, has_chart: bool) -> Load:
    """Load a page in a fresh profile; zoom into its chart if it has one."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.add_init_script(OBSERVE)
    page.goto(address, wait_until="load")
    if has_chart:
        page.wait_for_selector("figure.interactive", timeout=WAIT_MS)
    page.wait_for_timeout(200)
    read = page.evaluate(READ)
    zoom = _zoom(page) if has_chart else None
    context.close()
    return Load(read["paint"], read["shift"], read["interactive"], zoom)


def _zoom(page: Page) -> float:
    zoom: float = page.evaluate(ZOOM)
    return zoom


def percentile(values: Sequence[float]) -> float:
    """The 95th percentile."""
    return quantiles(values, n=20, method="inclusive")[-1]


def report_page(name: str, loads: Sequence[Load]) -> Iterator[Figure]:
    """The figures of one page."""

    def report(what: str, values: Sequence[float], limit: float, unit: str = " ms") -> Figure:
        value = percentile(values)
        digits = 0 if unit else 3
        return Figure(
            f"{name}: {what}",
            f"{value:.{digits}f}{unit} (least {min(values):.{digits}f})",
            f"{limit:g}{unit}",
            value <= limit,
        )

    yield report("first contentful paint", [load.paint_ms for load in loads], PAINT_MS)
    yield report("layout shift", [load.shift for load in loads], SHIFT, unit="")
    if interactive := [load.interactive_ms for load in loads if load.interactive_ms is not None]:
        yield report("chart interactive", interactive, INTERACTIVE_MS)
    if zooms := [load.zoom_ms for load in loads if load.zoom_ms is not None]:
        yield report("zoom", zooms, ZOOM_MS)


def fill_store(folder: Path) -> str:
    """Fill a store with a long history; return its address."""
    url = f"sqlite:///{folder / 'deep.db'}"
    with closing(open_store(url, create=True)) as store:
        fill_deep_store(store, *FILLED)
        store_incidents(store)
    return url


def measure(url: str, count: int) -> Iterator[Figure]:
    with closing(open_store(url, create=False)) as store:
        addresses = list_addresses(store)
    with a_server(url) as root, a_browser() as browser:
        for name, path in addresses.items():
            address, has_chart = f"{root.rstrip('/')}{path}", name.endswith("chart")
            load_page(browser, address, has_chart=has_chart)  # the first one warms the server
            yield from report_page(
                name, [load_page(browser, address, has_chart=has_chart) for _ in range(count)]
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store")
    parser.add_argument("--loads", type=int, default=20)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perfci-bench-") as temporary:
        print_figures_and_exit(measure(parsed.store or fill_store(Path(temporary)), parsed.loads))
