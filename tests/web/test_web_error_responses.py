"""Errors are answered in JSON to whoever asks for JSON, and as a page to a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from page_reading import COMPARE, P
from web_builders import a_commit

from perfci.config import Settings
from perfci.store import Store
from perfci_web import create_app

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
NO_COMMIT = f"{P}/compare/fffffff...{a_commit(1).sha}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{P}/no-such-page.json", f"There is no page at {P}/no-such-page.json."),
        (f"{P}/s/no.such/time.json", "no.such · time"),
        (f"{P}/incidents/77.json", "77"),
        (f"{NO_COMMIT}.json", "fffffff"),
        ("/nobody:home/benchmarks.json", "There is no project nobody/home in this store."),
    ],
)
def test_a_document_that_is_missing_is_a_problem_document(client: FlaskClient, path: str, text: str) -> None:
    answer = client.get(path, headers={"Accept": BROWSER})

    problem = answer.get_json()
    assert (answer.status_code, answer.mimetype) == (404, "application/problem+json")
    assert (problem["status"], problem["type"]) == (404, "/api/problems/not-found")
    assert text in problem["detail"]
    assert problem["instance"] == answer.headers["X-Request-Id"]


@pytest.mark.parametrize(
    ("accept", "mimetype"),
    [
        ("application/json", "application/problem+json"),
        ("application/problem+json", "application/problem+json"),
        ("application/json, text/plain, */*", "application/problem+json"),
        (BROWSER, "text/html"),
        ("*/*", "text/html"),
        ("", "text/html"),
        ("image/png", "text/html"),
    ],
)
def test_the_header_accept_decides_about_a_page(client: FlaskClient, accept: str, mimetype: str) -> None:
    assert client.get(NO_COMMIT, headers={"Accept": accept}).mimetype == mimetype
    assert client.get(COMPARE, headers={"Accept": accept}).mimetype == "text/html"


def test_a_method_that_is_not_taken_is_named_in_json(client: FlaskClient) -> None:
    answer = client.post(f"{P}/benchmarks.json")

    assert (answer.status_code, answer.mimetype) == (405, "application/problem+json")
    assert "GET" in answer.headers["Allow"]


@pytest.fixture
def public_client(store: Store) -> Iterator[FlaskClient]:
    """A caller of a public dashboard that allows a dozen requests a minute."""
    settings = Settings.model_validate({"server": {"requests_per_minute": 12}, "access": {"mode": "open"}})
    app = create_app(store, settings=settings)
    app.extensions["perfci"].request_limiter._buckets._clock = lambda: 0.0
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def test_refusals_are_problem_documents_too(public_client: FlaskClient) -> None:
    wrong = {"Authorization": "Bearer wrong"}

    answers = [public_client.get(f"{P}/benchmarks.json", headers=wrong) for _ in range(3)]

    assert {answer.mimetype for answer in answers} == {"application/problem+json"}
    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert answers[0].headers["WWW-Authenticate"] == "Bearer"
    assert int(answers[-1].headers["Retry-After"]) > 0
