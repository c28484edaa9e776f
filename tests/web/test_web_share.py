"""What is shared of a page: links that last, a sentence, Markdown, a command, and short links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from page_reading import SERIES, P
from web_builders import NOW, PROJECT, STEP, STEP_TIME, a_commit, a_store, fill

from perfci.config import Settings
from perfci.config.toml_tables import AccessTable
from perfci.store import Store
from perfci.store.access.short_links import find_or_add_short_link
from perfci.store.projects import find_project, update_project
from perfci_web import create_app
from perfci_web.page_urls import ProjectLinks
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

LINK = ProjectLinks(PROJECT).series(STEP_TIME)
FIRST, LAST = a_commit(0).sha, a_commit(39).sha
HOST = "http://localhost"
SENTENCE = "train.Step.time_step(8, 'bf16') is 14.62 ms"


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(a_store(tmp_path_factory.mktemp("share"))) as store:
        fill(store)
        yield store


@pytest.fixture(scope="module")
def writer(shared_store: Store) -> Iterator[FlaskClient]:
    """The local user of a server that takes changes."""
    app = create_app(shared_store, read_only=False, clock=lambda: NOW)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def shared(page: str) -> dict[str, str]:
    """The texts of the disclosure by their labels."""
    box = page.partition('<details class="share">')[2].partition("</details>")[0]
    entries = re.findall(r"<dt>(.*?)</dt>.*?<code>(.*?)</code>", box, re.DOTALL)
    return {re.sub(r"<[^>]+>", "", label): unescape(text) for label, text in entries}


def test_a_series_is_shared_live_and_with_the_commits_of_today(client: FlaskClient) -> None:
    texts = shared(client.get(LINK).text)

    frozen = texts["Frozen link with the commits of today"]
    assert texts["Link"] == HOST + LINK
    assert frozen.startswith(f"{HOST}{SERIES}.") or frozen.startswith(f"{HOST}{SERIES}?")
    assert f"from={FIRST}&to={LAST}" in frozen
    assert texts["Sentence"].startswith(SENTENCE)
    assert texts["Sentence"].endswith(frozen)
    assert texts["Markdown"].startswith(f"`{SENTENCE}")
    assert texts["Markdown"].endswith(f"[perfci]({frozen})") or texts["Markdown"].endswith(" perfci")
    assert texts["Command"] == (
        f"perfci compare {a_commit(STEP - 1).sha[:10]} {a_commit(STEP).sha[:10]}"
        " --bench '^train\\.Step\\.time_step\\(8,\\ '\"'\"'bf16'\"'\"'\\)$'"
    )
    assert client.get(frozen.removeprefix(HOST)).status_code == 200


def test_a_comparison_is_frozen_to_its_commits(client: FlaskClient) -> None:
    base, head = a_commit(STEP - 1).sha, a_commit(STEP).sha

    texts = shared(client.get(f"{P}/compare/{base[:8]}...{head[:8]}").text)

    assert texts["Link"] == f"{HOST}{P}/compare/{base[:8]}...{head[:8]}"
    assert texts["Frozen link of exactly these commits"] == f"{HOST}{P}/compare/{base}...{head}"
    assert texts["Command"] == f"perfci compare {base[:10]} {head[:10]}"


def test_an_incident_is_shared_with_its_number(tmp_path: Path) -> None:
    with closing(a_store(tmp_path)) as store:
        reconcile(store, NOW, a_budgeted_incident("a1", a_move("serve.<b>", rel=0.05)))
        client = create_app(store, clock=lambda: NOW).test_client()
        page = client.get("/acme:model/incidents/1").text

    texts = shared(page)
    assert texts["Link"] == f"{HOST}/acme:model/incidents/1"
    assert texts["Sentence"].startswith("#1 serve.<b> got worse, +5.0 %, at 0000000ccc Change number 12")
    assert "/compare/" in texts["Frozen link what its two commits compare to"]
    assert "Short link" not in page


def test_the_same_page_has_the_same_short_link(writer: FlaskClient) -> None:
    first, second = (writer.post(f"{P}/short-links", data={"target": LINK}) for _ in range(2))

    [address] = re.findall(r"<code>http://localhost(/x/[a-z2-7]{8})</code>", first.text)
    answer = writer.get(address)
    assert address in second.text
    assert (answer.status_code, answer.headers["Location"]) == (302, LINK)


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/acme:tiny-lm/",
        "//evil.example/acme:tiny-lm/",
        "/other:project/",
        f"{P}/\r\nSet-Cookie: a=b",
        f"{P}/\\evil",
        f"{P}/{'x' * 2001}",
        "",
    ],
)
def test_a_short_link_leads_to_pages_of_its_project_only(writer: FlaskClient, target: str) -> None:
    answer = writer.post(f"{P}/short-links", data={"target": target})

    assert answer.status_code == 400
    assert f"A short link leads to a page of {PROJECT}" in answer.text


def test_a_short_link_of_a_private_project_looks_like_none(shared_store: Store) -> None:
    with shared_store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        update_project(tx, project.id, visibility="private")
        link = find_or_add_short_link(tx, project.id, f"{P}/noise", actor="ada", at=NOW)
    settings = Settings(access=AccessTable(mode="open"))
    visitor = create_app(shared_store, clock=lambda: NOW, settings=settings).test_client()

    hidden, missing = visitor.get(f"/x/{link.code}"), visitor.get("/x/aaaaaaaa")

    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.text.replace(link.code, "CODE") == missing.text.replace("aaaaaaaa", "CODE")
    assert "tiny-lm" not in hidden.text
