"""A muted benchmark notifies nobody: its pages show it, with the end, the reason and the author."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from browsing import a_server
from page_reading import BF16, MANY, MANY_BF16, SERIES, P, read, words
from playwright.sync_api import Browser
from web_builders import NOW, PROJECT, STEP_TIME, fill

from perfci.store import Store
from perfci.store.incidents.expected_changes_and_muted_benchmarks import add_mute, end_mute
from perfci.store.incidents.incident_records import Mute
from perfci.store.projects import find_project
from perfci_web import create_app

NAME = STEP_TIME.benchmark.name
MUTE_NOTICE = (
    f"{NAME} is muted until 12 May 2026, by perfci: 3 of its 10 decided incidents were invalid. "
    "Its incidents notify nobody."
)


def mute_benchmark(store: Store, metric: str = "", until: datetime = NOW + timedelta(days=30)) -> None:
    reason = "3 of its 10 decided incidents were invalid"
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        add_mute(tx, project.id, Mute(NAME, metric, 0.3, reason, NOW, until, "perfci"))


def page_text(store: Store, path: str, days: int = 0) -> str:
    return words(read(create_app(store, clock=lambda: NOW + timedelta(days=days)).test_client(), path))


@pytest.fixture
def full_store(empty_store: Store) -> Store:
    fill(empty_store, 12)
    return empty_store


def test_lists_muted_benchmarks_with_end_and_reason(full_store: Store) -> None:
    mute_benchmark(full_store)

    page = page_text(full_store, f"{P}/benchmarks?q=step")

    assert MUTE_NOTICE in page
    assert "muted" in page.split(MUTE_NOTICE)[1]


def test_marks_a_muted_series_and_not_its_neighbours(full_store: Store) -> None:
    mute_benchmark(full_store)

    assert MUTE_NOTICE in page_text(full_store, f"{SERIES}{BF16}")
    assert "muted" not in page_text(full_store, f"{MANY}/data_stall{MANY_BF16}")


def test_names_a_muted_metric(full_store: Store) -> None:
    mute_benchmark(full_store, STEP_TIME.metric.name)

    assert f"{NAME} · {STEP_TIME.metric.name} is muted until" in page_text(full_store, f"{SERIES}{BF16}")


def test_hides_mutes_that_expired_or_were_lifted(full_store: Store) -> None:
    mute_benchmark(full_store)
    later = page_text(full_store, f"{P}/benchmarks", days=31)
    with full_store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        end_mute(tx, project.id, NAME, "", NOW)

    assert "muted" not in later + page_text(full_store, f"{P}/benchmarks") + page_text(
        full_store, f"{SERIES}{BF16}"
    )


def test_shows_the_mute_beside_the_benchmark(full_store: Store, browser: Browser) -> None:
    mute_benchmark(full_store, until=datetime.now(UTC) + timedelta(days=30))

    with a_server(full_store.url) as address:
        page = browser.new_page()
        page.goto(f"{address.rstrip('/')}{P}/benchmarks?q=time_step")
        page.locator("tbody th[scope=row]", has_text="muted").first.get_by_role("link").click()
        page.wait_for_url(f"**{P}/s/{NAME}/**")
        notice_count = page.locator(".lead .meta", has_text="is muted until").count()
        page.close()

    assert notice_count == 1
