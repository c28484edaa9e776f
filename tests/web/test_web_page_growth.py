"""A page takes as many statements for a long history as for a short one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from perfci.store import open_store
from perfci_web import create_app
from perfci_web.page_urls import encode_project_segment
from tests.support.builders import PROJECT
from tools.bench_pages import fill_deep_store
from tools.fill_store import commit_sha

ROOT = f"/{encode_project_segment(PROJECT)}"
SERIES, SHORT, LONG = 12, 10, 200

PAGES = (
    "",
    "benchmarks",
    "benchmarks?sort=change",
    "benchmarks?sort=commits",
    "benchmarks?sort=state",
    "benchmarks?q=time",
    "benchmarks.csv",
    "b/Deep.time_00000",
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


@pytest.fixture(scope="module")
def statements_by_commits(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, int]]:
    """How many statements each page took, by the number of commits in the store."""
    folder: Path = tmp_path_factory.mktemp("growth")
    counts: dict[int, dict[str, int]] = {}
    for commits in (SHORT, LONG):
        with closing(open_store(f"sqlite:///{folder / str(commits)}.db", create=True)) as store:
            fill_deep_store(store, SERIES, commits)
            client = create_app(store).test_client()
            counts[commits] = {}
            for page in PAGES:
                assert client.get(f"{ROOT}/{page}").status_code == 200, page
                with counted_statements() as statements:
                    client.get(f"{ROOT}/{page}")
                counts[commits][page] = len(statements)
    return counts


@pytest.mark.parametrize("page", PAGES)
def test_a_longer_history_takes_no_more_statements(
    statements_by_commits: dict[int, dict[str, int]], page: str
) -> None:
    short, long = statements_by_commits[SHORT][page], statements_by_commits[LONG][page]

    assert long <= short
