"""The page of results without a unit: what waits, and the form that says what it means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import a_server
from flask.testing import FlaskClient
from page_reading import words
from playwright.sync_api import Browser
from web_builders import NOW

from perfci.formats.format_types import ImportDefaults
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.store import Store
from perfci.store.queries import measured_samples
from perfci_web import create_app
from tests.support.builders import PROJECT, a_commit

PAGE = "/acme:model/unresolved-results"


@pytest.fixture
def waiting_store(empty_store: Store, tmp_path: Path) -> Store:
    """A store with two metrics that nobody knows, beside one that is known."""
    entries = [
        {"name": "encode", "unit": "ms", "value": 12.5},
        {"name": "queue score", "unit": "points", "value": 7},
        {"name": "cpu <load>", "unit": "%", "value": 40},
    ]
    path = tmp_path / "custom.json"
    path.write_text(json.dumps(entries))
    import_file_or_folder(empty_store, path, "auto", ImportDefaults(PROJECT, a_commit(), machine="box"))
    return empty_store


@pytest.fixture
def client(waiting_store: Store) -> Iterator[FlaskClient]:
    app = create_app(waiting_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def test_the_overview_leads_to_what_waits(client: FlaskClient) -> None:
    assert f'<a href="{PAGE}">2 results without a unit</a>' in client.get("/acme:model/").text

    page = words(client.get(PAGE).text)
    assert "2 metrics wait for a unit and a direction." in page
    assert "queue score value1 result of generic 7 points the direction" in page
    assert "cpu <load>" in page


def test_an_answer_holds_for_one_metric_in_one_unit(client: FlaskClient, waiting_store: Store) -> None:
    answer = client.post(f"{PAGE}/1", data={"unit": "points", "direction": "higher"})

    assert (answer.status_code, answer.headers["Location"]) == (303, PAGE)
    assert "1 metric waits for a unit and a direction." in words(client.get(PAGE).text)
    with waiting_store.read() as tx:
        labels = [result.series.label for result in measured_samples.load_run(tx, 1).results]
    assert labels == ["encode · value", "queue score · value"]


@pytest.mark.parametrize(
    ("number", "form", "status", "says"),
    [
        (1, {"unit": "", "direction": "higher"}, 400, "Give a unit, such as ms, bytes or points"),
        (1, {"unit": "points", "direction": "up"}, 400, "Give a unit, such as ms, bytes or points"),
        (9, {"unit": "points", "direction": "higher"}, 409, "This result does not wait any more."),
    ],
)
def test_a_wrong_answer_changes_nothing(
    client: FlaskClient, number: int, form: dict[str, str], status: int, says: str
) -> None:
    answer = client.post(f"{PAGE}/{number}", data=form)

    assert (answer.status_code, says in answer.text) == (status, True)
    assert "2 metrics wait" in words(client.get(PAGE).text)


def test_a_page_without_waiting_results_says_so(empty_store: Store, waiting_store: Store) -> None:
    app = create_app(waiting_store, clock=lambda: NOW)

    # Nobody may change a store that is only read.
    assert 'method="post"' not in app.test_client().get(PAGE).text


@pytest.mark.browser
def test_somebody_says_what_a_metric_means(waiting_store: Store, browser: Browser) -> None:
    with a_server(waiting_store.url, writable=True) as address:
        page = browser.new_page()
        page.goto(f"{address}{PAGE}")
        page.get_by_label("Unit of queue score, value").fill("points")
        page.get_by_label("Which direction is better").first.select_option("higher")
        page.get_by_role("button", name="Say so").first.click()

        assert page.get_by_role("heading", level=1).inner_text() == (
            "1 metric waits for a unit and a direction."
        )
        page.close()
