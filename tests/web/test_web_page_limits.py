"""How many pages of one caller a server renders in a minute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask

from perfci.config import Settings
from perfci.net.url_segments import encode_segment
from perfci.store import open_store, projects
from perfci_web import create_app
from perfci_web.page_access import ENDPOINT_COSTS, MISSING_PAGE_COST
from tests.support.builders import NOON, PROJECT

LIMIT = 60
OVERVIEW = f"/{encode_segment(PROJECT)}/"


@pytest.fixture
def public_app(tmp_path: Path) -> Iterator[Flask]:
    """A public dashboard of one empty project, for callers without a login."""
    settings = Settings.model_validate({"access": {"mode": "open"}, "server": {"requests_per_minute": LIMIT}})
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        with store.begin() as tx:
            projects.create_project(tx, PROJECT, "public", NOON)
        app = create_app(store, read_only=False, settings=settings)
        app.extensions["perfci"].request_limiter._buckets._clock = lambda: 0.0
        yield app
        app.extensions["perfci"].group_commit.close()


def count_answers(app: Flask, path: str, **headers: str) -> int:
    """How often a path is answered before it is refused."""
    client = app.test_client()
    return next(n for n in range(LIMIT + 2) if client.get(path, headers=headers).status_code == 429)


def test_refuses_more_pages_than_requests_of_the_api(public_app: Flask) -> None:
    assert count_answers(public_app, OVERVIEW) == LIMIT
    refused = public_app.test_client().get(OVERVIEW)

    assert refused.headers["Retry-After"] == "1"
    assert "Too much in one minute: try again in 1 s." in refused.text
    assert refused.mimetype == "text/plain"  # a page with a layout would cost as much as what is refused
    assert public_app.test_client().get("/api/v1/projects").status_code == 429
    assert public_app.test_client().get("/healthz").status_code == 200


@pytest.mark.parametrize(("end", "cost"), [("benchmarks", 5), ("benchmarks.csv", 30), ("changes", 5)])
def test_costly_pages_count_as_several_requests(public_app: Flask, end: str, cost: int) -> None:
    assert count_answers(public_app, OVERVIEW + end) == LIMIT / cost


@pytest.mark.parametrize("path", [f"{OVERVIEW}s/no/such", f"{OVERVIEW}no-such-page", "/nobody:home/"])
def test_pages_that_do_not_exist_count_as_several_requests(public_app: Flask, path: str) -> None:
    assert count_answers(public_app, path) == LIMIT / (1 + MISSING_PAGE_COST)


def test_commits_count_as_much_as_comparisons(public_app: Flask) -> None:
    assert count_answers(public_app, f"{OVERVIEW}commit/0123456") == LIMIT // (10 + MISSING_PAGE_COST)


def test_wrong_tokens_count_too(public_app: Flask) -> None:
    assert count_answers(public_app, f"{OVERVIEW}s/no/such", Authorization="Bearer wrong") == LIMIT


def test_names_endpoints_that_exist(public_app: Flask) -> None:
    endpoints = {rule.endpoint for rule in public_app.url_map.iter_rules()}
    endpoints |= {"authentication.begin_login", "authentication.finish_login"}  # with a login by GitHub

    assert set(ENDPOINT_COSTS) <= endpoints
