"""No two rows of a list read alike where benchmarks were measured in several places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from crawl_pages import list_rows
from flask.testing import FlaskClient
from page_reading import P, read, words
from web_builders import COMMITS, MACHINE, NOW, PROJECT, STEP, a_commit, a_run, a_store

from perfci.config import Settings
from perfci.history.series_histories import update_change_points
from perfci.model import Machine, Run, Variant
from perfci.project_policies import build_policy
from perfci.service.incidents.evaluate_project import evaluate_project
from perfci.service.incidents.reconcile_incidents import reconcile_incidents
from perfci.store.projects import find_project
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from perfci_web import create_app

POLICY = build_policy(Settings())

PLACES = [
    (MACHINE, Variant((("python", "3.12"),))),
    (MACHINE, Variant((("python", "3.13"),))),
    (Machine(name="laptop"), Variant((("python", "3.13"),))),
]

PAGES = [
    f"{P}/",
    f"{P}/incidents",
    f"{P}/incidents/1",
    f"{P}/changes?since=all",
    f"{P}/benchmarks",
    f"{P}/benchmarks?show=unavailable",
    f"{P}/compare/{a_commit(STEP - 1).sha}...{a_commit(STEP).sha}",
    f"{P}/commit/{a_commit(COMMITS - 1).sha}",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """A history of one suite in three places, with its change points and incidents."""
    store = a_store(tmp_path_factory.mktemp("places"))
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(COMMITS)])
        for index, (machine, variant) in enumerate(PLACES):
            session = f"history-{index}"
            start_session(tx, PROJECT, session, "history", f"spec-{index}", 7, 5, NOW)
            for number in range(COMMITS):
                find_or_add_run(tx, a_run_in_place(number, session, machine, variant))
            finish_session(tx, session, NOW)
        update_change_points(tx, PROJECT, load_project_series(tx, PROJECT), POLICY)
    with store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        evaluation = evaluate_project(tx, PROJECT, POLICY, Settings().history)
    reconcile_incidents(store, project, POLICY, evaluation, NOW)
    yield create_app(store, clock=lambda: NOW).test_client()
    store.close()


def a_run_in_place(number: int, session: str, machine: Machine, variant: Variant) -> Run:
    run = a_run(number)
    results = tuple(
        replace(
            result,
            processes=result.processes[:2],
            series=replace(result.series, machine=machine, variant=variant),
        )
        for result in run.results
    )
    return replace(run, session=session, machine=machine, variant=variant, results=results)


@pytest.mark.parametrize("path", PAGES)
def test_no_two_rows_of_a_list_read_alike(client: FlaskClient, path: str) -> None:
    lists = list_rows(read(client, path))

    assert sum(map(len, lists)) > 0
    for rows in lists:
        assert sorted(set(rows)) == sorted(rows)


def test_an_incident_shows_its_evidence_before_its_form(client: FlaskClient) -> None:
    html = read(client, f"{P}/incidents/1")

    places = [
        html.index(text)
        for text in (
            '<figure class="chart" id="chart">',
            "<h2>Is it the code?",
            "around the change, one y axis</h2>",
            "<h2>Status</h2>",
            "Affected series",
            "<h2>History",
        )
    ]
    assert places == sorted(places)
    [row] = re.findall(r"(?s)<tr><th scope=\"row\">.*?</tr>", html)[:1]
    assert re.search(r"12\.35 ms ?14\.60 ms \+18\.2 %", words(row))


def test_an_incident_says_whether_it_is_the_code(client: FlaskClient) -> None:
    html = read(client, f"{P}/incidents/1")

    text = words(html)
    for evidence in (
        "Is it the code? Maybe the runner: its environment changed with it.",
        "Moved: AMD EPYC 9354, 2 cores, 16 GB · py3.12: 2 of 2, ",
        "AMD EPYC 9354, 2 cores, 16 GB · py3.13: 2 of 2, laptop · py3.13: 2 of 2.",
        "In the same place 1 of 5 other benchmarks moved at the same commits.",
        "No A/A run within a week of it.",
        "The environment changed with it: torch 2.12.1 → 2.13.0.",
        "An A/B rerun decides it: perfci compare",
    ):
        assert evidence in text


def test_another_series_of_an_incident_is_drawn_large_by_address(client: FlaskClient) -> None:
    first = read(client, f"{P}/incidents/1")
    swaps = re.findall(r'href="([^"]+\?series=[0-9a-f]{12})#chart"', first)

    second = read(client, swaps[0])

    assert 1 <= len(set(swaps)) == len(swaps) <= 8
    assert caption(second) != caption(first)
    assert f'href="{swaps[0]}#chart"' not in second
    assert caption(read(client, f"{P}/incidents/1?series=nothing")) == caption(first)


def caption(html: str) -> str:
    """What the large chart of a page shows."""
    [text] = re.findall(r"(?s)<figcaption>(.*?)</figcaption>", html)
    return words(text)
