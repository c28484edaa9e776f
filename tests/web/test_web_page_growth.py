"""A page takes as many statements, and reads as many rows, for a long history as for a short one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from perfci.store import open_store
from perfci_web import create_app
from perfci_web.page_urls import encode_project_segment
from perfci_web.place_slugs import machine_slug
from tests.support.builders import PROJECT, a_machine
from tests.support.databases import KINDS, fresh_database
from tools.bench_pages import fill_deep_store
from tools.fill_store import commit_sha

ROOT = f"/{encode_project_segment(PROJECT)}"
SERIES, SHORT, LONG = 12, 10, 200
MORE_STEPS = 3
"""Thousands of instructions that the blocks of longer histories may take."""

NONCE = re.compile(r'nonce="[^"]*"')

SERIES_PAGE = "s/Deep.time_00000/time{}?m=" + machine_slug(a_machine())

PAGES = (
    "",
    "benchmarks",
    "benchmarks?sort=change",
    "benchmarks?sort=commits",
    "benchmarks?sort=state",
    "benchmarks?q=time",
    "benchmarks.csv",
    "b/Deep.time_00000",
    SERIES_PAGE.format(""),
    SERIES_PAGE.format("/figure"),
    SERIES_PAGE.format(".svg"),
    SERIES_PAGE.format(".csv"),
    "changes",
    "incidents",
    f"commit/{commit_sha(5)}",
    f"compare/{commit_sha(4)}...{commit_sha(5)}",
)


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    statements: list[str] = []

    def count(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", count)


@contextmanager
def counted_steps() -> Iterator[list[int]]:
    """Count how far SQLite went in all statements, in thousands of its instructions."""
    steps: list[int] = []

    def begin(connection: sa.Connection, *_: object) -> None:
        driver: Any = connection.connection.driver_connection
        driver.set_progress_handler(lambda: steps.append(1), 1000)

    sa.event.listen(sa.Engine, "before_cursor_execute", begin)
    try:
        yield steps
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", begin)


@dataclass(frozen=True)
class Work:
    """What the database did for a page: statements, and thousands of instructions."""

    statements: int
    steps: int


@pytest.fixture(scope="module")
def work_by_commits(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Work]]:
    """What each page took, by the number of commits in the store."""
    folder: Path = tmp_path_factory.mktemp("growth")
    counts: dict[int, dict[str, Work]] = {}
    for commits in (SHORT, LONG):
        with closing(open_store(f"sqlite:///{folder / str(commits)}.db", create=True)) as store:
            fill_deep_store(store, SERIES, commits)
            client = create_app(store).test_client()
            counts[commits] = {}
            for page in PAGES:
                assert client.get(f"{ROOT}/{page}").status_code == 200, page
                with counted_statements() as statements, counted_steps() as steps:
                    client.get(f"{ROOT}/{page}")
                counts[commits][page] = Work(len(statements), len(steps))
    return counts


@pytest.mark.parametrize("page", PAGES)
def test_a_longer_history_takes_no_more_statements(
    work_by_commits: dict[int, dict[str, Work]], page: str
) -> None:
    short, long = work_by_commits[SHORT][page], work_by_commits[LONG][page]

    assert long.statements <= short.statements


@pytest.mark.parametrize("part", ["/figure", ".svg", ".csv"])
def test_no_chart_reads_the_results_of_its_history(
    work_by_commits: dict[int, dict[str, Work]], part: str
) -> None:
    """Reading one row for each commit takes at least four thousand instructions more."""
    short, long = (work_by_commits[commits][SERIES_PAGE.format(part)] for commits in (SHORT, LONG))

    assert long.steps <= short.steps + MORE_STEPS


def test_both_databases_give_the_same_pages(tmp_path: Path) -> None:
    pages: dict[str, dict[str, str]] = {}
    for kind in KINDS:
        with fresh_database(kind, tmp_path) as url, closing(open_store(url, create=False)) as store:
            fill_deep_store(store, SERIES, SHORT)
            client = create_app(store).test_client()
            answers = {page: client.get(f"{ROOT}/{page}") for page in PAGES}
            assert {answer.status_code for answer in answers.values()} == {200}
            pages[kind] = {page: NONCE.sub("", answer.text) for page, answer in answers.items()}

    differing = [page for page in PAGES if pages["sqlite"][page] != pages["postgresql"][page]]
    assert differing == []
