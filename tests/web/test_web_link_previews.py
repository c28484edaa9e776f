"""What a chat shows of a link: title, sentence, lasting address, and a picture of a public project only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from flask.testing import FlaskClient
from web_builders import NOW, PROJECT, STEP_TIME, a_store, fill

from perfci.config import Settings
from perfci.config.toml_tables import AccessTable, ServerTable
from perfci.store import Store
from perfci.store.projects import find_project, update_project
from perfci_web import create_app
from perfci_web.page_urls import ProjectLinks
from tests.support.evaluations import a_budgeted_incident, a_move, reconcile

P = "/acme:tiny-lm"
SERIES = ProjectLinks(PROJECT).series(STEP_TIME)
HEADING = re.compile(r"<h1[^>]*>(.*?)</h1>", re.DOTALL)
PUBLIC_URL = "https://perf.example.com"


def previews(page: str) -> dict[str, str]:
    """The properties that a page tells of itself."""
    found = re.findall(r'<meta (?:property|name)="((?:og|twitter):[^"]+)" content="([^"]*)">', page)
    canonical = re.findall(r'<link rel="canonical" href="([^"]*)">', page)
    return {name: unescape(value) for name, value in found} | {"canonical": unescape(*canonical or [""])}


def set_visibility(store: Store, visibility: str) -> None:
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        update_project(tx, project.id, visibility=visibility)


@pytest.fixture(scope="module")
def team_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(a_store(tmp_path_factory.mktemp("previews"))) as store:
        fill(store)
        yield store


@pytest.fixture(scope="module")
def visitor(team_store: Store) -> FlaskClient:
    """Somebody without a login on a server of a team."""
    settings = Settings(server=ServerTable(public_url=PUBLIC_URL), access=AccessTable(mode="open"))
    return create_app(team_store, clock=lambda: NOW, settings=settings).test_client()


def test_every_page_tells_its_title_and_its_sentence(client: FlaskClient) -> None:
    paths = [
        "/",
        "/incidents",
        "/changes",
        "/benchmarks",
        "/compare",
        "/pulls",
        "/orders",
        "/noise",
        "/renames",
    ]
    paths += ["/search?q=step", "/unresolved-results", "/fleet", "/env", "/matrix", SERIES.removeprefix(P)]

    for path in paths:
        page = client.get(P + path).get_data(as_text=True)
        told = previews(page)
        heading = " ".join(unescape(re.sub(r"<[^>]+>", "", HEADING.findall(page)[0])).split())
        assert told["og:description"] == heading, path
        assert told["og:title"].endswith(PROJECT), path
        assert told["canonical"] == P + path
        assert told["og:url"] == f"http://localhost{P}{path}", path


def test_a_link_to_a_series_of_a_public_project_has_a_picture(
    visitor: FlaskClient, team_store: Store
) -> None:
    set_visibility(team_store, "public")

    told = previews(visitor.get(SERIES).get_data(as_text=True))

    assert told["og:image"] == f"{PUBLIC_URL}/embed{SERIES.replace('?', '.png?', 1)}"
    assert told["og:description"].startswith("train.Step.time_step(8, 'bf16') is 14.62 ms")
    picture = visitor.get(told["og:image"].removeprefix(PUBLIC_URL))
    assert picture.status_code == 200
    assert picture.mimetype == "image/png"  # no chat shows an SVG


def test_a_private_project_tells_a_visitor_nothing(visitor: FlaskClient, team_store: Store) -> None:
    set_visibility(team_store, "private")

    answer = visitor.get(SERIES)

    assert answer.status_code == 404
    assert "og:" not in answer.get_data(as_text=True)
    assert "14.62" not in answer.get_data(as_text=True)


def test_a_private_project_has_no_picture_for_its_members(client: FlaskClient) -> None:
    assert "og:image" not in previews(client.get(SERIES).get_data(as_text=True))


def test_leaves_out_of_the_address_what_was_just_done(client: FlaskClient) -> None:
    told = previews(client.get(f"{P}/incidents?changed=3").get_data(as_text=True))

    assert told["canonical"] == f"{P}/incidents"


def test_incidents_are_a_feed(tmp_path: Path) -> None:
    with closing(a_store(tmp_path)) as store:
        reconcile(store, NOW, a_budgeted_incident("a1", a_move("serve.<b>", rel=0.05)))
        client = create_app(store, clock=lambda: NOW).test_client()
        answer = client.get("/acme:model/incidents.atom")

    feed = ElementTree.fromstring(answer.data)
    ns = {"a": "http://www.w3.org/2005/Atom"}
    [entry] = feed.findall("a:entry", ns)
    assert answer.mimetype == "application/atom+xml"
    assert feed.findtext("a:title", "", ns) == "Incidents of acme/model"
    assert entry.findtext("a:title", "", ns) == (
        "#1 serve.<b> got worse, +5.0 %, at 0000000ccc Change number 12 (2 Mar 2026)"
    )
    assert entry.findtext("a:summary", "", ns) == (
        "regression, new. Detected in the history only; not yet confirmed on new pairs."
    )
