"""What was backed up can be restored: whole, into either kind of database, and while others write."""

from __future__ import annotations

import gzip
import itertools
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from perfci.model import PerfciError
from perfci.store import Store, backup, check_integrity, open_store, restore, verdicts_and_change_points
from perfci.store.incidents import expected_changes_and_muted_benchmarks
from perfci.store.incidents.expected_changes_and_muted_benchmarks import ExpectedChangeRecord
from perfci.store.jobs.work_queue_and_leases import claim_free_lease
from perfci.store.tables.base import TableBase
from perfci.store.transactions import StoreUnavailable
from perfci.store.writes.find_or_add_rows import ensure_project_id
from tests.support.builders import NOON, PROJECT, a_process, a_result, a_run, a_series, a_verdict
from tests.support.databases import KINDS, bare_database
from tests.support.stored_runs import ingest_run


def filled(store: Store) -> None:
    with store.begin() as tx:
        results = [a_result(a_series(f"suite.{name}"), a_process(0.1, 1e-300, 3.0)) for name in "abc"]
        ingest_run(tx, a_run(*results), "key", "body")
        verdicts_and_change_points.add_verdicts(tx, PROJECT, "session-1", [a_verdict(), a_verdict()], NOON)
        expected_change_record = ExpectedChangeRecord(
            "a" * 40, "peak_bytes", 0.03, "the cache holds two layers", "#12", NOON
        )
        expected_changes_and_muted_benchmarks.add_expected_changes(
            tx, ensure_project_id(tx, PROJECT), [expected_change_record], "GitHub", NOON
        )


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
        assert check_integrity(target) == []


def test_a_restored_database_takes_the_next_run(store: Store, kind: str, tmp_path: Path) -> None:
    filled(store)
    backup(store.url, tmp_path / "all.gz")

    with bare_database(kind, tmp_path) as target:
        restore(target, tmp_path / "all.gz")
        with closing(open_store(target, create=False)) as restored, restored.begin() as tx:
            ingest_run(tx, a_run(a_result(a_series("suite.d"), a_process(1.0))), "next", "body")

        assert len(everything(target)["runs"]) == 2


def test_restores_into_an_empty_database_that_a_worker_uses(kind: str, store: Store, tmp_path: Path) -> None:
    filled(store)
    backup(store.url, tmp_path / "all.gz")

    with bare_database(kind, tmp_path) as target:
        with closing(open_store(target, create=True)) as used, used.begin() as tx:
            claim_free_lease(tx, "judge", "worker-1")
        restore(target, tmp_path / "all.gz")

        assert everything(target) == everything(store.url)


def test_a_backup_under_load_is_a_consistent_snapshot(store: Store, tmp_path: Path) -> None:
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
            assert check_integrity(f"sqlite:///{tmp_path}/{number}.db") == []
    finally:
        end.set()
        writer.join()


def test_a_file_of_sqlite_is_restored_as_it_is(sqlite_store: Store, tmp_path: Path) -> None:
    filled(sqlite_store)
    backup(sqlite_store.url, tmp_path / "copy.db")

    restore(f"sqlite:///{tmp_path}/restored.db", tmp_path / "copy.db")

    assert everything(f"sqlite:///{tmp_path}/restored.db") == everything(sqlite_store.url)


def test_restoring_leaves_nothing_beside_the_backup(sqlite_store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    backup(sqlite_store.url, folder / "b.sqlite")

    restore(f"sqlite:///{tmp_path}/restored.sqlite", folder / "b.sqlite")

    assert [path.name for path in folder.iterdir()] == ["b.sqlite"]


def test_a_dump_that_was_cut_off_restores_nothing(sqlite_store: Store, tmp_path: Path) -> None:
    filled(sqlite_store)
    backup(sqlite_store.url, tmp_path / "all.gz")
    lines = gzip.decompress((tmp_path / "all.gz").read_bytes()).splitlines(keepends=True)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"".join(lines[:-3])))

    with pytest.raises(PerfciError, match="is cut off"):
        restore(f"sqlite:///{tmp_path}/restored.db", tmp_path / "cut.gz")

    assert everything(f"sqlite:///{tmp_path}/restored.db")["runs"] == []


def test_refuses_to_restore_over_existing_rows(store: Store, tmp_path: Path) -> None:
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


def test_databases_backups_and_dumps_are_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        filled(store)
        backup(store.url, tmp_path / "copy.db")
        backup(store.url, tmp_path / "all.gz")
        restore(f"sqlite:///{tmp_path}/new/restored.db", tmp_path / "copy.db")

        modes = {
            file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.rglob("*") if file.is_file()
        }

    assert {"perfci.db", "perfci.db-wal", "copy.db", "all.gz", "restored.db"} <= set(modes)
    assert set(modes.values()) == {0o600}


SIDE_FILES = ("-wal", "-shm", "-journal")


def killed_database(folder: Path, runs: int) -> Path:
    """A database as a killed server leaves it: its last runs are in the write-ahead log."""
    path, left = folder / "live.db", folder / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        for number in range(runs):
            with store.begin() as tx:
                ingest_run(tx, a_run(a_result(a_series("suite.a"), a_process(1.0))), f"key {number}", "body")
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
    return left


@pytest.mark.parametrize(
    "left_over",
    [names for count in (1, 2, 3) for names in itertools.combinations(SIDE_FILES, count)],
    ids="+".join,
)
@pytest.mark.parametrize("backup_name", ["copy.db", "all.gz"])
def test_refuses_to_restore_beside_side_files_of_a_moved_database(
    sqlite_store: Store, tmp_path: Path, left_over: tuple[str, ...], backup_name: str
) -> None:
    filled(sqlite_store)
    backup(sqlite_store.url, tmp_path / backup_name)
    killed = killed_database(tmp_path, runs=3)
    killed.rename(tmp_path / "away.db")
    for suffix in SIDE_FILES:
        side_file = Path(f"{killed}{suffix}")
        if suffix in left_over:
            side_file.touch()
        else:
            side_file.unlink(missing_ok=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    with pytest.raises(PerfciError, match="may hold the last writes of a database that was moved away"):
        restore(f"sqlite:///{killed}", tmp_path / backup_name)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_refuses_to_create_a_database_beside_a_left_over_log(tmp_path: Path) -> None:
    killed = killed_database(tmp_path, runs=1)
    killed.rename(tmp_path / "away.db")

    with pytest.raises(PerfciError, match=r"Move them where perfci\.db went"):
        open_store(f"sqlite:///{killed}", create=True)


def test_restores_once_the_side_files_are_moved_too(sqlite_store: Store, tmp_path: Path) -> None:
    filled(sqlite_store)
    backup(sqlite_store.url, tmp_path / "copy.db")
    killed = killed_database(tmp_path, runs=3)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{killed}{suffix}").rename(tmp_path / f"away.db{suffix}")

    restore(f"sqlite:///{killed}", tmp_path / "copy.db")

    assert everything(f"sqlite:///{killed}") == everything(sqlite_store.url)
    assert len(everything(f"sqlite:///{tmp_path}/away.db")["runs"]) == 3


def test_a_damaged_backup_is_not_restored(sqlite_store: Store, tmp_path: Path) -> None:
    filled(sqlite_store)
    copy = tmp_path / "copy.db"
    backup(sqlite_store.url, copy)
    with closing(sqlite3.connect(copy)) as connection:
        [(page_bytes,)] = connection.execute("PRAGMA page_size")
        [(root_page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'series'")
    with copy.open("r+b") as file:
        file.seek((root_page - 1) * page_bytes)
        file.write(b"\xff" * 100)

    with pytest.raises(PerfciError, match="is damaged"):
        restore(f"sqlite:///{tmp_path}/restored.db", copy)

    assert not (tmp_path / "restored.db").exists()


def replace_by_backup(path: Path, copy: Path) -> Path:
    """Move a database away while it is open, and restore a copy in its place."""
    away = path.with_name("away.db")
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").rename(f"{away}{suffix}")
    restore(f"sqlite:///{path}", copy)
    return away


def ingest(store: Store, key: str) -> None:
    with store.begin() as tx:
        ingest_run(tx, a_run(a_result(a_series(f"suite.{key}"), a_process(1.0))), key, "body")


def count_runs(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [(runs,)] = connection.execute("SELECT count(*) FROM runs")
        return int(runs)


def test_an_open_store_writes_to_the_database_restored_under_it(tmp_path: Path) -> None:
    path = tmp_path / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        ingest(store, "before")
        backup(store.url, tmp_path / "copy.db")
        ingest(store, "lost")
        away = replace_by_backup(path, tmp_path / "copy.db")

        ingest(store, "lost")
        ingest(store, "after")

        with store.read() as tx:
            assert tx.scalar(sa.text("SELECT count(*) FROM runs")) == 3
    assert (count_runs(path), count_runs(away)) == (3, 2)
    assert check_integrity(f"sqlite:///{path}") == []


def test_a_write_into_a_file_that_is_replaced_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        ingest(store, "before")
        backup(store.url, tmp_path / "copy.db")

        def ingest_and_replace() -> None:
            with store.begin() as tx:
                ingest_run(tx, a_run(a_result(a_series("suite.a"), a_process(1.0))), "during", "body")
                replace_by_backup(path, tmp_path / "copy.db")

        with pytest.raises(StoreUnavailable, match="was replaced meanwhile"):
            ingest_and_replace()

        ingest(store, "during")
    assert count_runs(path) == 2


def test_a_store_whose_file_was_moved_away_refuses_reads_and_writes(tmp_path: Path) -> None:
    path = tmp_path / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        ingest(store, "before")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").rename(tmp_path / f"away.db{suffix}")

        with pytest.raises(StoreUnavailable, match="was moved away"):
            ingest(store, "after")
        with pytest.raises(StoreUnavailable, match="was moved away"), store.read():
            pass
        assert not path.exists()


def test_a_database_of_an_older_schema_put_in_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        backup(store.url, tmp_path / "copy.db")
        replace_by_backup(path, tmp_path / "copy.db")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = '0015'")

        with pytest.raises(StoreUnavailable, match="older schema 0015"):
            ingest(store, "after")


def test_a_file_put_in_place_that_is_no_database_is_refused_until_it_is_one(tmp_path: Path) -> None:
    path = tmp_path / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        backup(store.url, tmp_path / "copy.db")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").rename(tmp_path / f"away.db{suffix}")
        path.write_bytes(b"not a database" * 100)

        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="is not a SQLite database"):
                ingest(store, "after")
        path.unlink()
        restore(f"sqlite:///{path}", tmp_path / "copy.db")
        ingest(store, "after")

    assert count_runs(path) == 1
