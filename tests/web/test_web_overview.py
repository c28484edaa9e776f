"""The first page: the projects of a store, and one of them at a glance."""

import re

from flask.testing import FlaskClient
from page_reading import COMPARE, P, read, words
from web_builders import COMMITS, EMULATED, NOW, STEP, a_commit

from perfci.store import Store
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import start_session
from perfci_web import create_app


def test_redirects_to_the_only_project(client: FlaskClient) -> None:
    answer = client.get("/")

    assert (answer.status_code, answer.location) == (302, f"{P}/")


def test_lists_several_projects(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        for name in ("acme/one", "acme/two words"):
            upsert_commits(tx, name, [a_commit(0)])
    html = create_app(empty_store).test_client().get("/").text

    assert "2 projects in this store" in words(html)
    assert "/acme:two~20words/" in html


def test_explains_how_to_fill_an_empty_store(empty_store: Store) -> None:
    text = words(create_app(empty_store).test_client().get("/").text)

    assert "nothing was measured yet" in text
    assert "perfci run" in text


def test_explains_how_to_fill_an_empty_project(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        upsert_commits(tx, "lonely", [a_commit(0)])
        start_session(tx, "lonely", "s", "history", "spec", 1, 1, NOW)
    client = create_app(empty_store).test_client()

    for path in ("/lonely/", "/lonely/benchmarks", "/lonely/compare", f"/lonely/commit/{a_commit(0).sha}"):
        assert re.search(r"perfci (run|compare|init)", words(read(client, path))), path


def test_summarises_the_project_in_its_first_sentence(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/"))

    assert (
        "1 open regression. train.Step.time_step(8, 'bf16') got 18.3 % slower [15.9, 20.8], 10 pairs" in text
    )
    assert "Last measured 21 minutes ago" in text
    assert "2 candidates not confirmed · 1 verdict inconclusive" in text


def test_counts_the_coverage_at_the_newest_commit(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/"))

    assert re.search(r"Newest measured commit.*measured ?9 not available ?5 failed ?1 not run ?1", text)


def test_counts_processes_rather_than_samples(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/"))

    cells = COMMITS * 7 - 3 - 1  # three commits ran out of memory, and the newest has no throughput
    assert f"40 commits · 14 series · {5 * cells + COMMITS:,} processes · 5 more not available here" in text


def test_shows_a_shared_reason_once(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/"))

    assert text.count(EMULATED) == 1
    assert f"3 {EMULATED}" in text


def test_links_a_regression_to_its_evidence(client: FlaskClient) -> None:
    html = read(client, f"{P}/")

    assert COMPARE in html
    assert f"{P}/commit/{a_commit(STEP).sha}" in html
