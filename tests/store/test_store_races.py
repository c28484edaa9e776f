"""Several writers at once, on both databases: no duplicate row, no deadlock, no partial write."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing

import pytest
import sqlalchemy as sa

from perfci.model import Run
from perfci.store import Store, check_integrity, open_store
from perfci.store.queries import series_search
from perfci.store.tables.measurements import RunRow
from perfci.store.writes.group_commit import GroupCommitter
from tests.support.builders import PROJECT, a_process, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run

CELLS = 40


def a_session_run(session: str, *, backwards: bool = False) -> Run:
    """A run of many new series, which two writers bring in opposite orders."""
    cells = range(CELLS)[::-1] if backwards else range(CELLS)
    return a_run(
        *(a_result(a_series(f"suite.cell_{cell:02}"), a_process()) for cell in cells), session=session
    )


def at_once(*jobs: Callable[[], object]) -> list[object]:
    """Start all of them together and answer what each came to, an error included."""
    start = threading.Barrier(len(jobs))
    came_to: list[object] = [None] * len(jobs)

    def run(place: int, job: Callable[[], object]) -> None:
        start.wait()
        try:
            came_to[place] = job()
        except Exception as error:
            came_to[place] = error

    threads = [threading.Thread(target=run, args=[place, job]) for place, job in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return came_to


def run_count(store: Store) -> int:
    with store.read() as tx:
        return tx.scalar(sa.select(sa.func.count(RunRow.id))) or 0


@pytest.mark.parametrize("attempt", range(3))
def test_two_writers_bring_the_same_new_series_in_opposite_orders(database_url: str, attempt: int) -> None:
    with (
        closing(open_store(database_url, create=False)) as item,
        closing(open_store(database_url, create=False)) as other,
        closing(GroupCommitter(item)) as first,
        closing(GroupCommitter(other)) as second,
    ):
        came_to = at_once(
            lambda: first.submit(lambda tx: ingest_run(tx, a_session_run("one"), "key one", "body")),
            lambda: second.submit(
                lambda tx: ingest_run(tx, a_session_run("two", backwards=True), "key two", "body")
            ),
        )

        assert came_to == [True, True]
        with item.read() as tx:
            assert len(series_search.search_series(tx, PROJECT)) == CELLS
        assert check_integrity(database_url) == []


def test_the_same_upload_twice_at_once_is_stored_once(database_url: str) -> None:
    with (
        closing(open_store(database_url, create=False)) as item,
        closing(open_store(database_url, create=False)) as other,
        closing(GroupCommitter(item)) as first,
        closing(GroupCommitter(other)) as second,
    ):
        came_to = at_once(
            lambda: first.submit(lambda tx: ingest_run(tx, a_session_run("one"), "key", "body")),
            lambda: second.submit(lambda tx: ingest_run(tx, a_session_run("one"), "key", "body")),
        )

        assert sorted(came_to, key=str) == [False, True]
        assert run_count(item) == 1


DYING = """
import sys
sys.path[:0] = {path!r}
from perfci.store import open_store
from tests.support.builders import a_process, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run
store = open_store({url!r}, create=False)
with store.begin() as tx, store.savepoint(tx):
    ingest_run(tx, a_run(a_result(a_series(), a_process())), "key", "body")
    print("stored, not committed", flush=True)
    sys.stdin.read()
"""


def test_a_writer_killed_before_its_commit_leaves_nothing(store: Store) -> None:
    code = DYING.format(path=sys.path, url=store.url)
    dying = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert dying.stdout is not None
    assert dying.stdin is not None
    assert dying.stdout.readline() == "stored, not committed\n"

    dying.send_signal(signal.SIGKILL)
    dying.wait()
    dying.stdin.close()
    dying.stdout.close()

    assert run_count(store) == 0
    with closing(GroupCommitter(store)) as group:
        assert group.submit(lambda tx: ingest_run(tx, a_session_run("one"), "key", "body"))


def test_a_database_locked_for_a_while_only_delays(sqlite_store: Store) -> None:
    locked, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with closing(open_store(sqlite_store.url, create=False)) as other, other.begin():
            locked.set()
            ended.wait(0.5)

    holder = threading.Thread(target=hold)
    with closing(GroupCommitter(sqlite_store)) as group:
        holder.start()
        locked.wait(60)
        stored = group.submit(lambda tx: ingest_run(tx, a_session_run("one"), "key", "body"))
        ended.set()
        holder.join()

    assert stored
    assert run_count(sqlite_store) == 1
