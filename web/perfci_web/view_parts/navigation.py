"""The tabs of the pages of a project: one table, a line a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perfci.store.incidents.incident_lists import count_open_incidents
from perfci.store.projects import find_project
from perfci_web.application_context import web_context
from perfci_web.lens import current_lens
from perfci_web.page_urls import ProjectLinks


@dataclass(frozen=True, slots=True)
class Tab:
    """A page that the bar leads to; ``keeps_lens`` says that it shows what the lens leaves."""

    label: str
    address: Callable[..., str]
    keeps_lens: bool = False


TABS = (
    Tab("Overview", ProjectLinks.overview_with, keeps_lens=True),
    Tab("Incidents", ProjectLinks.incidents, keeps_lens=True),
    Tab("Changes", ProjectLinks.changes, keeps_lens=True),
    Tab("Benchmarks", ProjectLinks.benchmarks, keeps_lens=True),
    Tab("Compare", ProjectLinks.choose_comparison),
)
MORE_TABS = (
    Tab("Pull requests", ProjectLinks.pull_requests),
    Tab("Orders", ProjectLinks.orders),
    Tab("Matrix", ProjectLinks.choose_matrix),
    Tab("Variants", ProjectLinks.variants),
    Tab("Disagreements", ProjectLinks.disagreements, keeps_lens=True),
    Tab("Fleet", ProjectLinks.fleet),
    Tab("Environment", ProjectLinks.environment),
    Tab("Noise", ProjectLinks.noise),
    Tab("Renames", ProjectLinks.renames),
    Tab("Settings", ProjectLinks.settings),
    Tab("API", ProjectLinks.api_description),
)
"""Pages that are opened less often, behind *More*."""


@dataclass(frozen=True, slots=True)
class TabLink:
    """A tab of one project; ``count`` is what waits there."""

    label: str
    address: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class Navigation:
    """The bar of one project."""

    tabs: tuple[TabLink, ...]
    more_tabs: tuple[TabLink, ...]


def build_navigation(project: str, links: ProjectLinks) -> Navigation:
    """Build the bar of a project; the tabs keep the lens of the current address."""
    counts = {"Incidents": _count_open_incidents(project)}
    lens_query = current_lens().query

    def build_link(tab: Tab) -> TabLink:
        address = tab.address(links, **(lens_query if tab.keeps_lens else {}))
        return TabLink(tab.label, address, counts.get(tab.label, 0))

    return Navigation(tuple(map(build_link, TABS)), tuple(map(build_link, MORE_TABS)))


def _count_open_incidents(project: str) -> int:
    with web_context().store.read() as tx:
        record = find_project(tx, project)
        return count_open_incidents(tx, record.id) if record else 0
