"""Every page passes axe-core, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import a_server
from page_reading import HERE
from playwright.sync_api import Browser, Page
from test_web_browser import CHARTLESS, EVERY_PAGE
from test_web_variants import store_variants
from web_builders import STEP, a_commit, a_store

from perfci.auth.permissions import LOCAL
from perfci.service.audit_context import AuditContext
from perfci.service.orders.place_orders import place_order
from perfci.store.chart_notes import add_chart_note
from perfci.store.jobs.measurement_orders import OrderContent
from perfci.store.projects import find_project
from tests.support.builders import a_sha
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
TRAIN = "train.Step.time_step/cpu_time"
MORE_PAGES = [
    "/acme:tiny-lm/matrix/train.Step.time_step/cpu_time?vs=row:fp32",
    "/acme:tiny-lm/fleet",
    "/acme:tiny-lm/env",
    f"/acme:tiny-lm/point/{TRAIN}/{a_commit(STEP).sha}?{HERE}&p.batch=8&p.dtype='bf16'",
    "/acme:tiny-lm/graph?norm=first&s=" + quote(f"{TRAIN}?{HERE}&p.batch=8&p.dtype='bf16'"),
    f"/acme:tiny-lm/waterfall/{TRAIN}?{HERE}&p.batch=8&p.dtype='bf16'",
    "/acme:tiny-lm/pulls",
    "/acme:tiny-lm/changes",
    "/acme:tiny-lm/benchmarks?q=nothing",
    "/nothing/here",
    "/login",
]
LIST = "/acme:model/incidents"
TRIAGE = [
    LIST,
    f"{LIST}/1",
    f"{LIST}?changed=1",
    "/acme:model/changes?since=all",
    "/acme:model/orders",
    "/acme:model/settings",
    "/acme:model/settings/threshold",
    "/acme:model/variants",
    f"/acme:model/commit/{a_sha(7)}",
]


@pytest.fixture(scope="module", params=SCHEMES)
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = browser.new_context(color_scheme=request.param)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with forms, of a project with incidents."""
    store = a_store(tmp_path_factory.mktemp("triage"))
    reconcile(
        store,
        datetime.now(UTC) - timedelta(days=1),
        a_budgeted_incident("b1", a_move("w", at=20), good=19, bad=20),
        a_budgeted_incident("a1"),
    )
    with store.begin() as tx:
        project = find_project(tx, "acme/model")
        assert project is not None
        content = OrderContent("compare", a_sha(19), a_sha(20), "x")
        add_chart_note(tx, project.id, a_sha(7), None, "new driver", author="ada", at=datetime.now(UTC))
        place_order(tx, AuditContext(LOCAL, datetime.now(UTC)), project, content, "cli")
    store_variants(store)
    store.close()
    with a_server(store.url, writable=True) as url:
        yield url.rstrip("/")


def faults(page: Page) -> list[tuple[str, str]]:
    """What axe finds: the rule, and the first element that breaks it."""
    violations: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [(violation["id"], violation["nodes"][0]["html"]) for violation in violations]


@pytest.mark.parametrize("path", [*EVERY_PAGE, *MORE_PAGES])
def test_passes_axe_on_every_page(page: Page, url: str, path: str) -> None:
    page.goto(f"{url}{path}")
    if "/s/" in path and path not in CHARTLESS:
        page.wait_for_selector("figure.interactive")

    assert faults(page) == []


@pytest.mark.parametrize("path", TRIAGE)
def test_passes_axe_on_pages_with_forms(page: Page, writable: str, path: str) -> None:
    page.goto(f"{writable}{path}")

    assert faults(page) == []


def test_passes_axe_while_the_keyboard_help_is_open(page: Page, writable: str) -> None:
    page.goto(f"{writable}{LIST}")
    page.keyboard.press("?")

    assert faults(page) == []


def test_passes_axe_on_a_rejected_form(page: Page, writable: str) -> None:
    page.goto(f"{writable}{LIST}/1")
    page.get_by_label("State").select_option("accepted")
    page.get_by_role("button", name="Save").click()

    assert faults(page) == []
