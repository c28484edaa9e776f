"""Triage in a real browser: by keyboard, undone, and by two people at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from browsing import a_server
from playwright.sync_api import Browser, Error, Page, expect
from web_builders import a_store

from perfci.store import Store
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

pytestmark = pytest.mark.browser

PROJECTS = itertools.count(1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, str]]:
    """A writable server for all: every test has a project of its own in it."""
    store = a_store(tmp_path_factory.mktemp("triage"))
    with a_server(store.url, writable=True) as url:
        yield store, url
    store.close()


@pytest.fixture
def incidents(served: tuple[Store, str]) -> str:
    """The address of the list of three open incidents, of which it shows the newest number first."""
    store, url = served
    name = f"model-{next(PROJECTS)}"
    results = [
        a_budgeted_incident(f"{name}-{at}", a_move(f"train.time_{at}", at=at), good=at - 1, bad=at)
        for at in (12, 20, 30)
    ]
    reconcile(store, datetime.now(UTC) - timedelta(days=1), *results[::-1], slug=f"acme/{name}")
    return f"{url}acme:{name}/incidents"


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    tab = browser.new_page()
    yield tab
    tab.context.close()


@pytest.fixture
def page(tab: Page, incidents: str) -> Iterator[Page]:
    """The list in a tab that others have used; what they chose is forgotten."""
    complaints: list[str] = []

    def complain(error: Error) -> None:
        complaints.append(str(error))

    tab.on("pageerror", complain)
    tab.goto(incidents)
    yield tab
    tab.remove_listener("pageerror", complain)
    tab.evaluate("localStorage.clear()")
    tab.context.clear_cookies()
    assert complaints == []


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def test_selects_by_j_and_k_and_opens_by_enter(page: Page) -> None:
    press(page, "j j k")
    expect(page.locator("a.title").first).to_be_focused()

    press(page, "j Enter")

    expect(page.locator(".kicker")).to_contain_text("Incidents / #2")


def test_answers_three_incidents_and_undoes_two_of_them(page: Page) -> None:
    """Every key that sets a state goes on to the next unanswered incident, whether the row stays or not."""
    press(page, "j v")
    expect(page.locator("#undo")).to_contain_text("#3 is investigating now.")
    expect(page.locator("a.title").nth(1)).to_be_focused()
    press(page, "i")
    expect(page.locator("#undo")).to_contain_text("#2 is invalid now.")
    expect(page.locator("h1")).to_have_text("2 open incidents, 1 closed or informational.")
    press(page, "e")
    expect(page.locator("#undo")).to_contain_text("#1 is environment now.")

    press(page, "u")
    expect(page.locator("#undo")).to_contain_text("#1 is new now.")
    press(page, "u")

    expect(page.locator("#undo")).to_contain_text("#2 is new now.")
    expect(page.locator("h1")).to_have_text("3 open incidents.")
    expect(page.locator("[data-number='3']").first).to_have_attribute("data-state", "investigating")


def test_undoes_two_changes_of_one_incident(page: Page) -> None:
    press(page, "j v")
    expect(page.locator("#undo")).to_contain_text("#3 is investigating now.")
    press(page, "k i")
    expect(page.locator("#undo")).to_contain_text("#3 is invalid now.")

    press(page, "u")
    expect(page.locator("#undo")).to_contain_text("#3 is investigating now.")
    press(page, "u")

    expect(page.locator("#undo")).to_contain_text("#3 is new now.")


def test_steps_through_the_queue_from_inside_an_incident(page: Page) -> None:
    press(page, "j Enter")
    expect(page.locator(".queue")).to_contain_text("1 of 3")
    press(page, "j")
    expect(page.locator(".kicker")).to_contain_text("Incidents / #2")

    press(page, "v")

    expect(page.locator(".kicker")).to_contain_text("Incidents / #1")
    expect(page.locator("#undo")).to_contain_text("#2 is investigating now.")


def test_accepts_inside_an_incident_and_goes_on_to_the_next(page: Page) -> None:
    press(page, "j Enter")
    expect(page.locator(".queue")).to_contain_text("1 of 3")
    press(page, "a")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("bf16 needs it")
    press(page, "Enter")

    expect(page.locator("#undo")).to_contain_text("#3 is accepted now.")
    expect(page.locator(".kicker")).to_contain_text("Incidents / #2")


def test_shows_the_queue_beside_an_incident_or_folded_above_it(page: Page, incidents: str) -> None:
    def top_and_left(selector: str) -> tuple[float, float]:
        box = page.locator(selector).bounding_box()
        assert box is not None
        return box["y"], box["x"]

    page.goto(f"{incidents}/2")
    links = page.get_by_role("navigation", name="Open incidents").get_by_role("link")
    expect(links.first).to_be_visible()
    assert (
        page.locator(".queue-pane").evaluate("node => node.offsetLeft + node.offsetWidth")
        < (top_and_left("h1")[1])
    )
    links.last.click()
    expect(page.locator(".kicker")).to_contain_text("Incidents / #1")

    page.set_viewport_size({"width": 1190, "height": 720})
    expect(links.first).not_to_be_visible()
    page.get_by_text("Queue: 3 of 3").click()
    expect(links.first).to_be_visible()
    assert top_and_left(".queue-pane")[0] < top_and_left("h1")[0]
    page.set_viewport_size({"width": 1280, "height": 720})


def test_accepts_for_thirty_days_and_returns_to_the_list(page: Page) -> None:
    press(page, "j a")

    expect(page.get_by_label("State")).to_have_value("accepted")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("bf16 needs it")
    press(page, "Enter")

    expect(page.locator("#undo")).to_contain_text("#3 is accepted now.")
    page.locator("#undo a").click()
    until = datetime.now(UTC) + timedelta(days=30)
    expect(page.locator(".log li").first).to_contain_text(f"Accepted until {until.day} {until:%b %Y}")


def test_ticks_an_incident_by_x(page: Page) -> None:
    press(page, "j x j x")

    page.get_by_role("button", name="Apply").click()

    expect(page.locator(".chip", has_text="investigating")).to_have_count(2)


def test_opens_the_keyboard_help_and_can_disable_keys(page: Page) -> None:
    press(page, "?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("snooze: asks until when")

    page.get_by_label("Single keys do nothing in this browser").check()
    press(page, "Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    press(page, "j")

    expect(page.locator("a.title").first).not_to_be_focused()


def test_ignores_keys_typed_into_a_field(page: Page) -> None:
    page.get_by_label("Reason").fill("")
    page.get_by_label("Reason").press_sequentially("jkxi?")

    expect(page.get_by_label("Reason")).to_have_value("jkxi?")
    expect(page.locator("h1")).to_have_text("3 open incidents.")


def test_reports_a_conflicting_change_and_preserves_what_was_typed(
    browser: Browser, page: Page, incidents: str
) -> None:
    second = browser.new_page()
    for item in (page, second):
        item.goto(f"{incidents}/1")
    page.get_by_label("Assignee").fill("Ada")
    page.get_by_label("State").select_option("investigating")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("section .facts")).to_contain_text("Ada")

    second.get_by_label("State").select_option("invalid")
    second.get_by_label("Note").fill("the machine was hot\nthat night")
    second.get_by_role("button", name="Save").click()

    expect(second.get_by_role("alert")).to_have_text(
        "Incident 1 was changed meanwhile and is investigating now (revision 2): reload it. "
        "What you typed is kept below: save it again if it still holds."
    )
    expect(second.get_by_label("Note")).to_have_value("the machine was hot\nthat night")
    expect(second.get_by_label("State")).to_have_value("invalid")
    expect(second.get_by_label("Assignee")).to_have_value("Ada")
    second.get_by_role("button", name="Save").click()
    expect(second.locator("section .facts")).to_contain_text("Ada")
    expect(second.locator(".counts")).to_contain_text("invalid")
    second.context.close()


def test_refuses_an_undo_after_a_newer_change(browser: Browser, page: Page, incidents: str) -> None:
    press(page, "j i")
    expect(page.locator("#undo")).to_contain_text("is invalid now.")
    number = page.locator("#undo a").inner_text().lstrip("#")
    second = browser.new_page()
    second.goto(f"{incidents}/{number}")
    second.get_by_label("Assignee").fill("Bob")
    second.get_by_role("button", name="Save").click()
    expect(second.locator("section .facts")).to_contain_text("Bob")

    press(page, "u")

    expect(page.get_by_role("alert")).to_have_text(
        f"Incident {number} was changed meanwhile and is invalid now (revision 3): reload it."
    )
    second.context.close()


def test_works_by_forms_without_javascript(browser: Browser, incidents: str) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(f"{incidents}/1")
    page.get_by_label("State").select_option("invalid")
    page.get_by_role("button", name="Save").click()

    page.get_by_role("button", name="Undo").click()

    expect(page.locator(".log li").first).to_contain_text("Undone invalid → new")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    expect(page.get_by_role("button", name="Keyboard: ?")).to_have_count(0)
    page.context.close()
