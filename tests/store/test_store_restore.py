"""What was backed up can be restored: whole, into either kind of database, and while others write."""

from __future__ import annotations

import gzip
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from perfci.model import PerfciError
from perfci.store import Store, backup, check, open_store, restore
from perfci.store.incidents import expected_changes
from perfci.store.incidents.expected_changes import ExpectedChangeRecord
from perfci.store.tables.base import TableBase
from perfci.store.writes import verdict_writes
from perfci.store.writes.row_ids import ensure_project_id
from tests.support.builders import NOON, PROJECT, a_process, a_result, a_run, a_series, a_verdict
from tests.support.databases import KINDS, bare_database
from tests.support.stored_runs import ingest_run


def filled(store: Store) -> None:
    with store.begin() as tx:
        results = [a_result(a_series(f"suite.{name}"), a_process(0.1, 1e-300, 3.0)) for name in "abc"]
        ingest_run(tx, a_run(*results), "key", "body")
        verdict_writes.add_verdicts(tx, PROJECT, "session-1", [a_verdict(), a_verdict()], NOON)
        told = ExpectedChangeRecord("a" * 40, "peak_bytes", 0.03, "the cache holds two layers", "#12", NOON)
        expected_changes.add_expected_changes(tx, ensure_project_id(tx, PROJECT), [told], "GitHub", NOON)


def everything(url: str) -> dict[str, list[tuple[object, ...]]]:
    with closing(open_store(url, create=False)) as store, store.read() as tx:
        return {
            table.name: [tuple(row) for row in tx.execute(sa.select(table).order_by(*table.primary_key))]
            for table in TableBase.metadata.sorted_tables
        }


@pytest.mark.parametrize("into", KINDS)
def test_a_dump_fills_either_kind_of_database(store: Store, into: str, tmp_path: Path) -> None:
    filled(store)
    backup(store.url, tmp_path / "all.gz")

    with bare_database(into, tmp_path) as target:
        restore(target, tmp_path / "all.gz")

        assert everything(target) == everything(store.url)
        assert check(target) == []


def test_a_restored_database_takes_the_next_run(store: Store, kind: str, tmp_path: Path) -> None:
    filled(store)
    backup(store.url, tmp_path / "all.gz")

    with bare_database(kind, tmp_path) as target:
        restore(target, tmp_path / "all.gz")
        with closing(open_store(target, create=False)) as restored, restored.begin() as tx:
            ingest_run(tx, a_run(a_result(a_series("suite.d"), a_process(1.0))), "next", "body")

        assert len(everything(target)["runs"]) == 2


def test_a_backup_under_load_is_of_one_moment(store: Store, tmp_path: Path) -> None:
    filled(store)
    stored, end = [], threading.Event()

    def go_on_writing() -> None:
        while not end.is_set():
            with store.begin() as tx:
                run = a_run(a_result(a_series("suite.a"), a_process(1.0), a_process(2.0, index=1)))
                done = ingest_run(tx, run, f"key {len(stored)}", "body")
            stored.append(done)

    writer = threading.Thread(target=go_on_writing)
    writer.start()
    try:
        for number in range(3):
            before = len(stored)
            backup(store.url, tmp_path / f"{number}.gz")
            after = len(stored)
            restore(f"sqlite:///{tmp_path}/{number}.db", tmp_path / f"{number}.gz")

            runs = len(everything(f"sqlite:///{tmp_path}/{number}.db")["runs"]) - 1
            assert before <= runs <= after + 1
            assert check(f"sqlite:///{tmp_path}/{number}.db") == []
    finally:
        end.set()
        writer.join()


def test_a_file_of_sqlite_is_restored_as_it_is(sqlite_store: Store, tmp_path: Path) -> None:
    filled(sqlite_store)
    backup(sqlite_store.url, tmp_path / "copy.db")

    restore(f"sqlite:///{tmp_path}/restored.db", tmp_path / "copy.db")

    assert everything(f"sqlite:///{tmp_path}/restored.db") == everything(sqlite_store.url)


def test_a_dump_that_was_cut_off_restores_nothing(sqlite_store: Store, tmp_path: Path) -> None:
    filled(sqlite_store)
    backup(sqlite_store.url, tmp_path / "all.gz")
    lines = gzip.decompress((tmp_path / "all.gz").read_bytes()).splitlines(keepends=True)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"".join(lines[:-3])))

    with pytest.raises(PerfciError, match="is cut off"):
        restore(f"sqlite:///{tmp_path}/restored.db", tmp_path / "cut.gz")

    assert everything(f"sqlite:///{tmp_path}/restored.db")["runs"] == []


def test_nothing_is_restored_over_what_is_there(store: Store, tmp_path: Path) -> None:
    filled(store)
    backup(store.url, tmp_path / "all.gz")

    with pytest.raises(PerfciError, match="holds rows already"):
        restore(store.url, tmp_path / "all.gz")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"not packed", "is no whole dump"),
        (gzip.compress(b'{"kind":"else"}\n'), "is no dump of perfci"),
        (gzip.compress(b'{"kind":"perfci.dump/1","schema":"0001"}\n'), "has the schema 0001"),
        (gzip.compress(b'{"kind":"perfci.dump/1"')[:-9], "is no whole dump"),
    ],
    ids=["not packed", "of another kind", "of an old schema", "cut off"],
)
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "file.gz").write_bytes(content)

    with pytest.raises(PerfciError, match=sentence):
        restore(f"sqlite:///{tmp_path}/new.db", tmp_path / "file.gz")
