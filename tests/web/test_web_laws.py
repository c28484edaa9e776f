"""Three laws of every page, on the measurements of Django: no two rows read alike, a change has one size,
and a link means one thing for ever.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from crawl_pages import crawl_pages, find_links, list_rows, table_cells
from flask import Flask
from flask.testing import FlaskClient

from perfci.model import Commit, Environment, Machine, Process, Result, Run, Series, Status
from perfci.store import Store, open_store
from perfci.store.queries.series_commits_machines import load_commits_newest_first, load_project_series
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from perfci_web import create_app
from tests.support.django_store import (
    NOW,
    PROJECT,
    extract_all,
    extract_sample,
    needs_django,
    open_django_store,
)

pytestmark = needs_django

P = f"/{PROJECT}"
STEP = "2cace96be6...c9eb16a87e"
"""The two commits between which Django's validation of forms became 140 times slower."""

FACETED = [
    f"{P}/?since=all",
    f"{P}/changes?since=all",
    f"{P}/changes?since=all&moved=worse",
    f"{P}/changes?since=all&v.python=3.13",
    f"{P}/benchmarks?sort=change",
    f"{P}/benchmarks?q=time+3.13",
    f"{P}/benchmarks?machine=macos-12",
    f"{P}/search?q=form",
    f"{P}/compare/{STEP}",
    f"{P}/compare/{STEP}?show=all",
    f"{P}/compare/v:conda-py3.12-1e40...v:conda-py3.13-aed1",
    f"{P}/compare/m:macos-12...m:windows-2022",
    f"{P}/commit/c9eb16a87e",
    f"{P}/pulls",
]
"""Addresses that a crawl begins with: lists through every facet, and the greatest step."""

Pages = dict[str, str]

PER_KIND = {"sample": 2, "whole": 15}
"""Pages of one kind that are read."""


@pytest.fixture(
    scope="module", params=["sample", pytest.param("whole", marks=[pytest.mark.proof, pytest.mark.slow])]
)
def extent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def django(extent: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp(f"django-{extent}")
    results = extract_sample(folder) if extent == "sample" else extract_all(folder)
    with open_django_store(folder, results) as store:
        yield store


@pytest.fixture(scope="module")
def app(django: Store) -> Flask:
    return create_app(django, clock=lambda: NOW)


@pytest.fixture(scope="module")
def pages(app: Flask, extent: str) -> Pages:
    """The pages that links lead to, by address."""
    return dict(crawl_pages(app, [f"{P}/", *FACETED], PER_KIND[extent]))


def test_no_two_rows_of_a_list_read_alike(pages: Pages) -> None:
    alike = {
        address: [row for row, count in Counter(rows).items() if count > 1]
        for address, html in pages.items()
        for rows in list_rows(html)
        if len(set(rows)) < len(rows)
    }

    assert alike == {}
    assert sum(len(rows) for html in pages.values() for rows in list_rows(html)) > 1_000


def test_the_series_of_a_graph_read_differently(app: Flask, pages: Pages) -> None:
    graphs = [address for address in pages if address.startswith(f"{P}/graph")]
    legends = [read_legend(app.test_client(), address) for address in graphs]

    assert max(map(len, legends)) > 2
    assert [legend for legend in legends if len(set(legend)) < len(legend)] == []


def test_a_change_has_one_size_on_every_page(pages: Pages) -> None:
    shown = [(address, *sizes) for address, html in pages.items() for sizes in shown_changes(html)]

    assert len(shown) > 50
    assert [each for each in shown if not size_fits_levels(*each[1:])] == []


def test_a_change_has_one_size_in_json_and_csv(app: Flask, pages: Pages) -> None:
    client = app.test_client()
    formats = [link for html in pages.values() for link in find_links(html)]
    kinds = {extension: _of_kind(formats, extension) for extension in ("json", "csv")}
    values = [
        *(
            (address, *change)
            for address in kinds["json"]
            for change in json_changes(client.get(address).json)
        ),
        *((address, *change) for address in kinds["csv"] for change in csv_changes(client.get(address).text)),
    ]

    assert len(values) > 100
    assert [
        each
        for each in values
        if each[1] > 0 and not math.isclose(each[2] / each[1] - 1, each[3], rel_tol=1e-6, abs_tol=1e-9)
    ] == []


def test_a_link_means_the_same_series_when_another_machine_measures(
    django: Store, pages: Pages, tmp_path: Path
) -> None:
    links = sorted({link for html in pages.values() for link in find_links(html) if f"{P}/s/" in link})
    links = [link for link in links if ".csv" not in link and ".svg" not in link and ".png" not in link]
    chosen = [link for link in links if ".json" not in link][:: max(1, len(links) // 8)]
    before = read_series(django, chosen)

    with closing(copy_store(django, tmp_path)) as grown:
        measure_elsewhere(grown)
        after = read_series(grown, chosen)
        app = create_app(grown, clock=lambda: NOW)
        whole = {link: app.test_client().get(link).status_code for link in chosen}
        bare = {link: app.test_client().get(link.partition("?")[0]) for link in chosen}

    assert len(chosen) > 5
    assert after == before
    assert set(whole.values()) == {200}
    for link, answer in bare.items():
        assert answer.status_code == 302, link
        assert answer.headers["Location"].startswith(f"{P}/b/"), link


def test_a_frozen_link_shows_the_same_after_more_commits(django: Store, pages: Pages, tmp_path: Path) -> None:
    frozen = sorted({link for html in pages.values() for link in frozen_links(html)})
    before = read_series(django, frozen)

    with closing(copy_store(django, tmp_path)) as grown:
        measure_a_new_commit(grown)
        assert read_series(grown, frozen) == before

    assert frozen


def read_legend(client: FlaskClient, address: str) -> list[str]:
    """The texts beside the colours below the picture of a graph."""
    path, _, query = address.partition("?")
    svg = client.get(f"{path}.svg?{query}").text
    return re.findall(r'<circle class="pc-dot pc-line-\d"[^>]*/></g><text[^>]*>([^<]*)</text>', svg)


def shown_changes(html: str) -> Iterator[tuple[str, str, str]]:
    """Before, after and size as rows show them; one without a ratio has no size."""
    for cells in table_cells(html):
        sizes = [text for heading, text in cells.items() if heading.startswith("Change")]
        before, after = cells.get("Before") or cells.get("Base"), cells.get("After") or cells.get("Head")
        if arrow := cells.get("Before → after"):
            before, _, after = arrow.partition(" → ")
        if before and after and sizes and (size := re.match(r"[+−-][\d,.]+ %", sizes[0])):
            yield before, after, size[0]


def size_fits_levels(before: str, after: str, size: str) -> bool:
    """Whether a size can be that of two levels, all three rounded as they are shown."""
    (base, base_error), (head, head_error), (change, error) = map(parse_number, (before, after, size))
    smallest = (head - head_error) / (base + base_error) - 1
    largest = (head + head_error) / (base - base_error) - 1
    return (change - error) / 100 <= largest and smallest <= (change + error) / 100


def parse_number(text: str) -> tuple[float, float]:
    """The first number of a text, and half of its last digit."""
    matched = re.search(r"[+−-]?[\d,]+(?:\.(\d+))?", text)
    assert matched is not None, text
    value = float(matched[0].replace(",", "").replace("−", "-"))
    return value, 0.5000001 * 10.0 ** -len(matched[1] or "")


def json_changes(value: Any) -> Iterator[tuple[float, float, float]]:
    """Every before, after and size within a document."""
    if isinstance(value, dict):
        base, head = value.get("before", value.get("base_level")), value.get("after", value.get("level"))
        if None not in (base, head, value.get("relative_change")):
            yield base, head, value["relative_change"]
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from json_changes(part)


def csv_changes(text: str) -> Iterator[tuple[float, float, float]]:
    for row in csv.DictReader(io.StringIO(text)):
        base, head = row.get("before") or row.get("base_level"), row.get("after") or row.get("level")
        size = row.get("relative_change")
        if base and head and size:
            yield float(base), float(head), float(size)


FINDERS = {"json": lambda text: json_changes(json.loads(text)), "csv": csv_changes}


def frozen_links(html: str) -> Iterator[str]:
    """The addresses of series that the page offers as lasting: they end at a commit."""
    for link in re.findall(r"(?s)Frozen link.*?<code>[^<]*?(/[^<]*)</code>", html):
        if f"{P}/s/" in link:
            yield link[link.index(f"{P}/s/") :].replace("&amp;", "&").replace("&#39;", "'")


def read_series(store: Store, links: list[str]) -> dict[str, tuple[Any, int]]:
    """What each link means: the series, and how many commits it has."""
    client = create_app(store, clock=lambda: NOW).test_client()
    series = {}
    for link in links:
        path, _, query = link.partition("?")
        fields = client.get(f"{path}.json?{query}").get_json()
        series[link] = fields["series"], [point["commit"] for point in fields["points"]]
    return series


def copy_store(store: Store, folder: Path) -> Store:
    """A copy of a store that others go on reading."""
    path = Path(store.url.removeprefix("sqlite:///"))
    for suffix in ("", "-wal"):
        if (source := Path(f"{path}{suffix}")).exists():
            shutil.copy(source, folder / f"copy.db{suffix}")
    return open_store(f"sqlite:///{folder}/copy.db", create=False)


def measure_elsewhere(store: Store) -> None:
    """Measure every benchmark once on a machine that nobody knew."""
    with store.read() as tx:
        series = list(load_project_series(tx, PROJECT).values())
        [commit] = load_commits_newest_first(tx, PROJECT, limit=1)
    elsewhere = Machine(name="new-box")
    add_run(store, commit, elsewhere, {replace(each, machine=elsewhere) for each in series})


def measure_a_new_commit(store: Store) -> None:
    with store.read() as tx:
        series = list(load_project_series(tx, PROJECT).values())
        [newest] = load_commits_newest_first(tx, PROJECT, limit=1)
    commit = Commit("f" * 40, committed_at=NOW, branch=newest.branch, position=(newest.position or 0) + 1)
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [commit])
    for machine in {each.machine for each in series}:
        add_run(store, commit, machine, {each for each in series if each.machine == machine})


def add_run(store: Store, commit: Commit, machine: Machine, series: set[Series]) -> None:
    for variant in {each.variant for each in series}:
        results = tuple(
            Result(each, Status.OK, (Process(0, samples=(0.5, 0.5), round=0, started_at=NOW),))
            for each in series
            if each.variant == variant
        )
        session = f"late {machine.name} {variant.label}"
        run = Run(
            project=PROJECT,
            session=session,
            commit=commit,
            machine=machine,
            environment=Environment(()),
            variant=variant,
            suite="benchmarks",
            harness=results[0].series.harness,
            started_at=NOW - timedelta(hours=1),
            finished_at=NOW,
            results=results,
        )
        with store.begin() as tx:
            start_session(tx, PROJECT, session, "history", session, 7, 1, NOW)
            find_or_add_run(tx, run)
            finish_session(tx, session, NOW)


def _of_kind(links: list[str], extension: str) -> list[str]:
    """The first link to a format of each kind of page."""
    kinds: dict[str, list[str]] = {}
    for link in dict.fromkeys(links):
        if re.search(rf"\.{extension}(\?|$)", link) and link.startswith(P):
            kinds.setdefault("/".join(link.split("/")[2:3]).partition("?")[0], []).append(link)
    return [each[0] for each in kinds.values()]
