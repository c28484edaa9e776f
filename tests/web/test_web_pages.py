"""What every page promises, and what an address without a page answers."""

import functools
import re
from collections.abc import Callable
from html import unescape

import pytest
from flask.testing import FlaskClient
from page_reading import BF16, EVERY_PAGE, SERIES, P, read, words
from web_builders import HOSTILE_SUBJECT, STEP, a_commit

from perfci.model import PerfciError
from perfci.store import Store
from perfci_web import create_app


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_renders_every_page_without_inline_code_or_foreign_links(client: FlaskClient, path: str) -> None:
    html = read(client, path)

    assert html.count("<h1>") == 1
    assert re.search(r"<title>[^<]+ · perfci</title>", html)
    assert not re.search(r"<[^>]+\sstyle=|<style|\son[a-z]+=|javascript:", html)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", html)
    assert all('scope="' in head for head in re.findall(r"<th\b[^>]*>", html))
    assert html.count("<table>") == html.count("<caption")
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


@pytest.fixture(scope="module")
def status(client: FlaskClient) -> Callable[[str], int]:
    """What an address answers; most are linked from several pages, and are asked once."""
    return functools.cache(lambda address: client.get(address).status_code)


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_links_only_to_existing_pages(client: FlaskClient, status: Callable[[str], int], path: str) -> None:
    result = re.findall(r'(?:href|src)="([^"]+)"', read(client, path))
    addresses = {unescape(address).partition("#")[0] for address in result}

    for address in sorted(filter(None, addresses)):
        assert status(address) in (200, 302, 303), address


def test_escapes_hostile_text(client: FlaskClient) -> None:
    after = a_commit(STEP + 1).sha
    for path in (f"{P}/commit/{after}", f"{SERIES}{BF16}", f"{P}/compare/{a_commit(STEP).sha}...{after}"):
        html = read(client, path)
        assert "<script>alert" not in html
        assert HOSTILE_SUBJECT in unescape(html)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/nobody:home/", "There is no project nobody/home in this store"),
        ("/acme/tiny-lm/", "acme/tiny-lm"),
        (f"{P}/nothing/here", "Benchmarks"),
        (f"{P}/s/train.Step.time_stop/cpu_time", "train.Step.time_step(8, 'bf16')"),
        (f"{P}/commit/ffffffff", "knows no commit that starts with ffffffff"),
        (f"{P}/compare/ffffffff...eeeeeeee", "knows no commit"),
        ("/api/", "There is no page at /api/"),
        ("/~41/", "There is no page at /~41/"),
        (f"{P}/benchmarks.png", "There is no page"),
    ],
)
def test_suggests_pages_for_an_unknown_address(client: FlaskClient, path: str, sentence: str) -> None:
    answer = client.get(path, follow_redirects=True)

    assert answer.status_code == 404
    assert sentence in words(answer.text)


@pytest.mark.parametrize(
    "path", [f"{P}/nothing/here", f"{P}/s/train.Step.time_stop/cpu_time", f"{P}/commit/ffffffff"]
)
def test_keeps_the_tabs_of_a_project_on_its_404_page(client: FlaskClient, path: str) -> None:
    html = client.get(path).text

    assert f'<a href="{P}/incidents">Incidents</a>' in html
    assert "aria-current" not in html


@pytest.mark.parametrize("path", ["/nobody:home/benchmarks", "/api/", "/~41/"])
def test_shows_no_tabs_on_a_404_page_outside_projects(client: FlaskClient, path: str) -> None:
    assert 'aria-label="Project"' not in client.get(path).text


def test_redirects_to_the_address_with_a_slash(client: FlaskClient) -> None:
    answer = client.get(P)

    assert (answer.status_code, answer.location) == (308, f"http://localhost{P}/")


def test_explains_an_unreadable_store(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tx: object) -> None:
        raise PerfciError(
            f"The database {empty_store.url} is locked by another perfci process: wait for it to finish."
        )

    monkeypatch.setattr("perfci.store.queries.project_counts.load_projects_with_counts", broken)
    answer = create_app(empty_store).test_client().get("/")

    assert answer.status_code == 503
    assert "The database behind this dashboard is locked by another perfci process" in words(answer.text)
    assert empty_store.url not in answer.text
