"""Jobs of many threads share a commit, and a failing one affects no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store import Store, open_store, projects
from perfci.store.queries import measured_samples, runs_and_sessions
from perfci.store.writes import group_commit, measured_sessions
from perfci.store.writes.group_commit import BatchFunction, GroupCommitter, StoreBusy, StoreUnavailable
from tests.support.builders import NOON, PROJECT, a_process, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run
from tests.support.waiting import until


@pytest.fixture
def group(store: Store) -> Iterator[GroupCommitter]:
    with closing(GroupCommitter(store)) as group:
        yield group


def start(tx: Session, uid: str) -> str:
    measured_sessions.start_session(tx, PROJECT, uid, "history", "", 1, 1, NOON)
    return uid


def uids(store: Store) -> set[str]:
    with store.read() as tx:
        return {session.uid for session in runs_and_sessions.load_sessions(tx, PROJECT)}


def test_returns_after_the_commit(store: Store, group: GroupCommitter) -> None:
    answer = group.submit(lambda tx: start(tx, "one"))

    assert answer == "one"
    assert uids(store) == {"one"}


def test_a_failing_job_does_not_affect_the_others(store: Store) -> None:
    messages: list[str] = []

    def submit(uid: str) -> None:
        try:
            group.submit(lambda tx: start(tx, uid))
        except PerfciError as error:
            messages.append(str(error))

    with closing(GroupCommitter(store, max_jobs=4, wait_ms=60_000)) as group:
        threads = [threading.Thread(target=submit, args=[uid]) for uid in ("one", "two", "two", "three")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert uids(store) == {"one", "two", "three"}
    assert messages == ["The session two exists already: every session needs a name of its own."]


def test_closing_stores_waiting_jobs_and_refuses_new_ones(store: Store) -> None:
    group = GroupCommitter(store, wait_ms=60_000)
    waiting = threading.Thread(target=lambda: group.submit(lambda tx: start(tx, "late")))
    waiting.start()
    assert until(lambda: group._waiting.unfinished_tasks)

    group.close()
    waiting.join()

    assert uids(store) == {"late"}
    with pytest.raises(StoreUnavailable, match="is stopping"):
        group.submit(lambda tx: start(tx, "too late"))


def test_a_full_queue_refuses_with_a_retry_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MAX_QUEUED_JOBS", 1)
    running, go_on = threading.Event(), threading.Event()

    def slow(tx: Session) -> None:
        running.set()
        go_on.wait(60)

    with closing(GroupCommitter(store, max_jobs=1)) as group:
        first = threading.Thread(target=lambda: group.submit(slow))
        first.start()
        running.wait(60)
        second = threading.Thread(target=lambda: group.submit(lambda tx: start(tx, "second")))
        second.start()
        assert until(group._waiting.full)
        with pytest.raises(StoreBusy) as refusal:
            group.submit(lambda tx: start(tx, "third"))
        go_on.set()
        first.join()
        second.join()

    assert refusal.value.retry_after > 0
    assert uids(store) == {"second"}


def test_discards_the_cached_ids_of_a_rolled_back_job(store: Store, group: GroupCommitter) -> None:
    run = a_run(a_result(a_series(), a_process()))

    def fail(tx: Session) -> None:
        ingest_run(tx, run, "key", "body")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        group.submit(fail)
    group.submit(lambda tx: ingest_run(tx, run, "key", "body"))

    with store.read() as tx:
        assert len(measured_samples.load_session_processes(tx, run.session)) == 1


def test_a_project_version_grows_once_per_transaction_that_changed_it(store: Store) -> None:
    with store.begin() as tx:
        project = projects.create_project(tx, PROJECT, "private", NOON)

    with store.begin() as tx:
        projects.mark_projects_changed(tx, [project.id])
        projects.mark_projects_changed(tx, [project.id])
    with closing(GroupCommitter(store)) as group, pytest.raises(ZeroDivisionError):
        group.submit(lambda tx: (projects.mark_projects_changed(tx, [project.id]), 1 // 0))

    with store.read() as tx:
        result = projects.find_project(tx, PROJECT)
    assert result is not None
    assert result.version == 1


def test_reports_a_full_disk_and_recovers(sqlite_store: Store) -> None:
    def fill(tx: Session) -> None:
        pages = tx.connection().exec_driver_sql("PRAGMA page_count").scalar_one()
        tx.connection().exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        start(tx, "x" * 100_000)

    def make_room(tx: Session) -> str:
        tx.connection().exec_driver_sql("PRAGMA max_page_count = 1000000")
        return start(tx, "fits")

    with closing(GroupCommitter(sqlite_store)) as group:
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            group.submit(fill)
        group.submit(make_room)

    assert uids(sqlite_store) == {"fits"}


def test_reports_a_locked_database(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfci.store.open_database.BUSY_TIMEOUT_S", 0.05)
    url = f"sqlite:///{database}"

    with (
        closing(open_store(url, create=False)) as other,
        closing(open_store(url, create=False, durable=True)) as store,
        closing(GroupCommitter(store)) as group,
    ):
        with other.begin(), pytest.raises(StoreUnavailable, match="locked by another perfci process"):
            group.submit(lambda tx: start(tx, "one"))
        group.submit(lambda tx: start(tx, "two"))

        assert uids(store) == {"two"}


def test_gives_up_on_a_database_that_stays_locked_and_stores_nothing_later(database: Path) -> None:
    url, now = f"sqlite:///{database}", [0.0]

    with (
        closing(open_store(url, create=False)) as other,
        closing(open_store(url, create=False, durable=True)) as store,
        closing(GroupCommitter(store, max_wait_s=0.2, clock=lambda: now[0])) as group,
    ):
        with other.begin():
            with pytest.raises(StoreBusy, match=r"It was not stored within 0\.2 s: another process holds"):
                group.submit(lambda tx: start(tx, "one"))
            now[0] = 0.3
            with pytest.raises(StoreBusy, match=r"Nothing could be stored for 0\.2 s: another process holds"):
                group.submit(lambda tx: start(tx, "refused at once"))
        assert until(lambda: group._writing_since is None)
        group.submit(lambda tx: start(tx, "two"))

        assert uids(store) == {"two"}


def test_tries_a_locked_database_once(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfci.store.open_database.BUSY_TIMEOUT_S", 0.05)
    url = f"sqlite:///{database}"
    begun = []

    with (
        closing(open_store(url, create=False)) as other,
        closing(open_store(url, create=False, durable=True)) as store,
        closing(GroupCommitter(store)) as group,
    ):
        begin = store.begin
        monkeypatch.setattr(store, "begin", lambda: (begun.append(1), begin())[1])
        with other.begin(), pytest.raises(StoreUnavailable, match="locked by another perfci process"):
            group.submit(lambda tx: start(tx, "one"))

    assert len(begun) == 1


def test_says_that_a_job_may_still_be_stored_once_it_has_begun(store: Store) -> None:
    go_on = threading.Event()

    def wait_and_start(tx: Session) -> str:
        go_on.wait(60)
        return start(tx, "one")

    with closing(GroupCommitter(store, max_wait_s=0.2)) as group:
        with pytest.raises(StoreBusy, match=r"within 0\.2 s, though it may still be: another process"):
            group.submit(wait_and_start)
        go_on.set()

    assert uids(store) == {"one"}


@pytest.mark.parametrize(("times", "message"), [(1, "one"), (9, "The connection to the database was lost.")])
def test_retries_after_a_lost_connection(
    store: Store, group: GroupCommitter, times: int, message: str
) -> None:
    lost = iter(range(times))

    def lose(tx: Session) -> str:
        if next(lost, None) is not None:
            tx.connection().invalidate()
            return "lost"
        return start(tx, "one")

    assert answered(lambda: group.submit(lose)) == message
    assert uids(store) == ({"one"} if message == "one" else set())


def answered(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except StoreUnavailable as error:
        return str(error)


def test_runs_batched_jobs_together(store: Store) -> None:
    together: list[int] = []

    def start_all(tx: Session, wanted: Sequence[str]) -> list[str]:
        together.append(len(wanted))
        return [start(tx, uid) for uid in wanted]

    answers = submitted_at_once(store, start_all, ["one", "two", "three"])

    assert together == [3]
    assert answers == {"one": "one", "two": "two", "three": "three"}
    assert uids(store) == {"one", "two", "three"}


def test_refuses_only_the_job_that_fails_its_batch(store: Store) -> None:
    together: list[int] = []

    def start_all(tx: Session, wanted: Sequence[str]) -> list[str]:
        together.append(len(wanted))
        return [start(tx, uid) if uid != "bad" else 1 // 0 for uid in wanted]

    answers = submitted_at_once(store, start_all, ["one", "bad", "three"])

    assert together == [3, 1, 1, 1]
    assert answers == {"one": "one", "bad": "integer division or modulo by zero", "three": "three"}
    assert uids(store) == {"one", "three"}


def submitted_at_once(
    store: Store, together: BatchFunction[str, str], wanted: Sequence[str]
) -> dict[str, str]:
    """What each was answered of those that share a transaction."""
    answers: dict[str, str] = {}

    def submit(uid: str) -> None:
        try:
            answers[uid] = group.submit_batch_item(together, uid)
        except ZeroDivisionError as error:
            answers[uid] = str(error)

    with closing(GroupCommitter(store, max_jobs=len(wanted), wait_ms=60_000)) as group:
        threads = [threading.Thread(target=submit, args=[uid]) for uid in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return answers
