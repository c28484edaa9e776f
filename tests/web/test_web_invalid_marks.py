"""The pages of a commit and of a series mark results as invalid, show who did so and why, and undo it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import a_server
from flask.testing import FlaskClient
from page_reading import BF16, SERIES, P, read, words
from playwright.sync_api import Browser, Page
from web_builders import NOW, a_commit, fill

from perfci.store import Store
from perfci_web import create_app

COMMIT = f"{P}/commit/{a_commit(7).sha}"


@pytest.fixture
def full_store(empty_store: Store) -> Store:
    fill(empty_store, 12)
    return empty_store


@pytest.fixture
def client(full_store: Store) -> Iterator[FlaskClient]:
    app = create_app(full_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def test_marks_and_unmarks_a_run_on_the_page_of_its_commit(full_store: Store, browser: Browser) -> None:
    with a_server(full_store.url, writable=True) as address:
        page = browser.new_page()
        page.goto(f"{address.rstrip('/')}{COMMIT}")
        page.get_by_label("Why this run is invalid").fill("the machine was shared")
        page.get_by_role("button", name="Mark as invalid").click()
        marked = read_text(page)
        page.get_by_role("button", name="Mark as valid").click()
        valid = read_text(page)
        page.close()

    assert "marked invalid by local: the machine was shared" in marked
    assert ("marked invalid" in valid, "Mark as invalid" in valid) == (False, True)


def read_text(page: Page) -> str:
    page.wait_for_load_state()
    return page.locator("main").inner_text()


def test_marks_a_point_on_the_page_of_its_series(client: FlaskClient, full_store: Store) -> None:
    identity = read(client, f"{SERIES}{BF16}").split('name="series" value="')[1][:64]

    form = {"series": identity, "commit": a_commit(7).sha, "reason": "thermal throttling"}
    answer = client.post(f"{P}/invalid-mark", data=form)

    page = words(read(client, f"{SERIES}{BF16}"))
    points = client.get(f"{SERIES}.json{BF16}").json["points"]
    assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (303, SERIES)
    assert f"{a_commit(7).sha[:10]} " in page.split("Marked invalid")[1]
    assert "thermal throttlinglocal" in page
    assert a_commit(7).sha not in [point["commit"] for point in points]


def test_a_mark_needs_a_reason(client: FlaskClient) -> None:
    key = read(client, COMMIT).split('name="run" value="')[1][:64].split('"')[0]

    answer = client.post(f"{P}/invalid-mark", data={"run": key, "commit": a_commit(7).sha, "reason": " "})

    assert answer.status_code == 409
    assert "A reason of 1 to 500 characters is needed: why is it invalid?" in words(answer.text)


def test_readers_see_marks_and_no_forms(client: FlaskClient, full_store: Store) -> None:
    key = read(client, COMMIT).split('name="run" value="')[1].split('"')[0]
    client.post(f"{P}/invalid-mark", data={"run": key, "commit": a_commit(7).sha, "reason": "shared"})

    page = read(create_app(full_store, clock=lambda: NOW).test_client(), COMMIT)

    assert "marked invalid by local: shared" in words(page)
    assert "<button>Mark as invalid" not in page
