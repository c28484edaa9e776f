"""A muted benchmark notifies nobody: its pages show it, with the end, the reason and the author."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from browsing import a_server
from page_reading import BF16, MANY, MANY_BF16, SERIES, P, read, words
from playwright.sync_api import Browser
from web_builders import NOW, PROJECT, STEP_TIME, fill

from perfci.store import Store
from perfci.store.incidents.exemptions import add_mute, end_mute
from perfci.store.incidents.records import Mute
from perfci.store.projects import find_project
from perfci_web import create_app

NAME = STEP_TIME.benchmark.name
SAID = (
    f"{NAME} is muted until 12 May 2026, by perfci: 3 of its 10 decided incidents were invalid. "
    "Its incidents notify nobody."
)


def put_away(store: Store, metric: str = "", until: datetime = NOW + timedelta(days=30)) -> None:
    reason = "3 of its 10 decided incidents were invalid"
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        add_mute(tx, project.id, Mute(NAME, metric, 0.3, reason, NOW, until, "perfci"))


def told(store: Store, path: str, days: int = 0) -> str:
    return words(read(create_app(store, clock=lambda: NOW + timedelta(days=days)).test_client(), path))


@pytest.fixture
def full_store(empty_store: Store) -> Store:
    fill(empty_store, 12)
    return empty_store


def test_the_list_says_which_until_when_and_why(full_store: Store) -> None:
    put_away(full_store)

    page = told(full_store, f"{P}/benchmarks?q=step")

    assert SAID in page
    assert "muted" in page.split(SAID)[1]


def test_a_series_says_so_and_its_neighbours_do_not(full_store: Store) -> None:
    put_away(full_store)

    assert SAID in told(full_store, f"{SERIES}{BF16}")
    assert "muted" not in told(full_store, f"{MANY}/data_stall{MANY_BF16}")


def test_a_metric_of_its_own_is_named(full_store: Store) -> None:
    put_away(full_store, STEP_TIME.metric.name)

    assert f"{NAME} · {STEP_TIME.metric.name} is muted until" in told(full_store, f"{SERIES}{BF16}")


def test_what_is_over_or_was_let_out_is_not_told(full_store: Store) -> None:
    put_away(full_store)
    later = told(full_store, f"{P}/benchmarks", days=31)
    with full_store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        end_mute(tx, project.id, NAME, "", NOW)

    assert "muted" not in later + told(full_store, f"{P}/benchmarks") + told(full_store, f"{SERIES}{BF16}")


def test_a_reader_finds_it_beside_the_benchmark(full_store: Store, browser: Browser) -> None:
    put_away(full_store, until=datetime.now(UTC) + timedelta(days=30))

    with a_server(full_store.url) as address:
        page = browser.new_page()
        page.goto(f"{address.rstrip('/')}{P}/benchmarks?q=time_step")
        page.locator("tbody th[scope=row]", has_text="muted").first.get_by_role("link").click()
        page.wait_for_url(f"**{P}/s/{NAME}/**")
        said = page.locator(".lead .meta", has_text="is muted until").count()
        page.close()

    assert said == 1
