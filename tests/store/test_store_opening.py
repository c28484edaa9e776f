"""A database opens ready to use, or the error says in one sentence why not."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from multiprocessing.queues import Queue
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from perfci.model import PerfciError
from perfci.store import Store, migrate_schema, open_database, open_store, upgrade, upgrade_if_older
from perfci.store.open_database import format_address, parse_database_url
from perfci.store.queries import measured_samples, project_counts, runs_and_sessions, series_search
from perfci.store.tables.base import TableBase
from perfci.store.writes import measured_sessions
from tests.support.builders import NOON, PROJECT, a_process, a_run, a_series
from tests.support.databases import bare_database


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def set_schema(path: Path, version: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [version])


def refusal(url: str, *, create: bool = False) -> str:
    with pytest.raises(PerfciError) as error:
        open_store(url, create=create)
    return str(error.value)


def test_makes_an_absent_database_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "perfci.db"

    with closing(open_store(url_of(path), create=True)) as store, store.read() as tx:
        assert project_counts.load_projects_with_counts(tx) == []

    assert path.is_file()


def test_makes_an_empty_file_a_database(tmp_path: Path) -> None:
    path = tmp_path / "perfci.db"
    path.touch()

    open_store(url_of(path), create=True).close()

    open_store(url_of(path), create=False).close()


def test_creating_again_preserves_the_stored_rows(database: Path) -> None:
    with closing(open_store(url_of(database), create=True)) as store, store.begin() as tx:
        measured_sessions.start_session(tx, PROJECT, "one", "history", "", 1, 1, NOON)

    with closing(open_store(url_of(database), create=True)) as store, store.read() as tx:
        assert [session.uid for session in runs_and_sessions.load_sessions(tx, PROJECT)] == ["one"]


def test_several_programs_can_make_the_same_database_at_once(kind: str, tmp_path: Path) -> None:
    forks = multiprocessing.get_context("forkserver")  # one of them imports the store for all
    forks.set_forkserver_preload(["perfci.store", "alembic.command"])
    with bare_database(kind, tmp_path) as url:
        makers = [forks.Process(target=open_store, args=(url,), kwargs={"create": True}) for _ in range(3)]

        for maker in makers:
            maker.start()
        for maker in makers:
            maker.join()

        assert [maker.exitcode for maker in makers] == [0, 0, 0]
        open_store(url, create=False).close()


def test_waits_for_whoever_writes_the_first_page_of_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        done = threading.Timer(0.3, writer.execute, ["COMMIT"])
        done.start()

        open_store(url_of(path), create=True).close()

        done.join()


def test_opens_a_current_database_without_loading_the_migrations(database: Path) -> None:
    code = (
        "import sys; from perfci.store import open_store;"
        f"open_store({url_of(database)!r}, create=False).close(); sys.exit('alembic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_connection_waits_for_writers_and_checks_references(sqlite_store: Store) -> None:
    with sqlite_store.read() as tx:
        pragmas = [tx.connection().exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS]

    assert pragmas == ["wal", 1, 1, 30_000]


PRAGMAS = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")


def test_a_server_promises_that_a_commit_survives_a_power_cut(database: Path) -> None:
    with closing(open_store(url_of(database), create=False, durable=True)) as store, store.begin() as tx:
        assert tx.connection().exec_driver_sql("PRAGMA synchronous").scalar() == FULL

    assert database.with_name("perfci.db-turn").exists()


FULL = 2
"""https://www.sqlite.org/pragma.html#pragma_synchronous"""


def test_migrations_make_exactly_the_tables_of_the_program(store: Store) -> None:
    with store.read() as tx:
        context = MigrationContext.configure(tx.connection(), opts={"compare_type": True})
        difference = compare_metadata(context, TableBase.metadata)

    assert difference == []


def test_the_schema_the_program_names_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrate_schema.MIGRATIONS))

    assert ScriptDirectory.from_config(config).get_current_head() == open_database.SCHEMA


def test_refuses_a_missing_database(tmp_path: Path) -> None:
    path = tmp_path / "none" / "perfci.db"

    assert (
        refusal(url_of(path)) == f"There is no database at {path}: measure something first with `perfci run`."
    )
    assert not path.parent.exists()


def test_refuses_an_empty_file_to_read_from(tmp_path: Path) -> None:
    path = tmp_path / "perfci.db"
    path.touch()

    assert "is empty: measure something first" in refusal(url_of(path))


def test_refuses_an_older_schema_with_the_command_that_upgrades_it(database: Path) -> None:
    set_schema(database, "0000")

    sentence = refusal(url_of(database), create=True)

    assert sentence == (
        f"The database {database} has the older schema 0000, this perfci needs {CURRENT}: "
        "run `perfci db upgrade`."
    )


def test_refuses_a_newer_schema(database: Path) -> None:
    set_schema(database, "9999")

    assert f"{database} was made by a newer perfci (schema 9999" in refusal(url_of(database), create=True)
    with pytest.raises(PerfciError, match="made by a newer perfci"):
        upgrade(url_of(database))


def test_upgrades_an_older_database_and_keeps_its_rows(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_store(url_of(database), create=False)) as store, store.begin() as tx:
        measured_sessions.start_session(tx, PROJECT, "one", "history", "", 1, 1, NOON)
    a_program_with_one_more_migration(tmp_path, monkeypatch)
    assert "run `perfci db upgrade`" in refusal(url_of(database))

    upgrade(url_of(database))

    with closing(open_store(url_of(database), create=False)) as store, store.read() as tx:
        assert [session.uid for session in runs_and_sessions.load_sessions(tx, PROJECT)] == ["one"]
        assert tx.connection().exec_driver_sql("SELECT count(*) FROM later").scalar() == 0


def test_upgrades_only_an_existing_database_of_an_older_schema(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_program_with_one_more_migration(tmp_path, monkeypatch)

    for path in (database, database, tmp_path / "absent.db"):
        upgrade_if_older(url_of(path))

    open_store(url_of(database), create=False).close()
    assert not (tmp_path / "absent.db").exists()


def test_a_migration_that_fails_changes_nothing(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_program_with_one_more_migration(tmp_path, monkeypatch, then="raise RuntimeError('half way')")

    with pytest.raises(RuntimeError, match="half way"):
        upgrade(url_of(database))

    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(CURRENT,)]
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'later'").fetchall() == []


def a_program_with_one_more_migration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str = "pass"
) -> None:
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    for file in (*migrate_schema.MIGRATIONS.glob("*.py"), *migrate_schema.MIGRATIONS.glob("versions/*.py")):
        (folder / file.relative_to(migrate_schema.MIGRATIONS)).write_text(file.read_text())
    (folder / "versions" / f"{LATER}_later.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision = '{LATER}'\ndown_revision = '{CURRENT}'\n"
        f"def upgrade():\n    op.create_table('later', sa.Column('id', sa.Integer))\n    {then}\n"
    )
    monkeypatch.setattr(migrate_schema, "MIGRATIONS", folder)
    monkeypatch.setattr(open_database, "SCHEMA", LATER)


CURRENT = open_database.SCHEMA
LATER = f"{int(CURRENT) + 1:04}"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://host/db", "neither SQLite nor PostgreSQL"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("perfci.db", "Not a database URL: 'perfci.db'"),
    ],
)
def test_refuses_an_address_it_cannot_use(url: str, says: str) -> None:
    assert says in refusal(url, create=True)


@pytest.mark.skipif(find_spec("psycopg") is not None, reason="the driver is installed")
def test_a_missing_driver_is_named() -> None:
    assert "run `pip install 'psycopg[binary]'`" in refusal("postgresql+psycopg://localhost/perfci")


def test_a_message_never_shows_a_password() -> None:
    assert (
        format_address(parse_database_url("postgresql://ada:secret@db/perfci"))
        == "postgresql://ada:***@db/perfci"
    )


def test_refuses_a_folder(tmp_path: Path) -> None:
    assert "is a folder; expected a file" in refusal(url_of(tmp_path), create=True)


def test_refuses_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("a list of things to do")

    assert f"{path} is not a database" in refusal(url_of(path), create=True)
    assert path.read_text() == "a list of things to do"


def test_refuses_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")

    assert "holds other tables than perfci's" in refusal(url_of(path), create=True)


def test_refuses_a_truncated_database(database: Path) -> None:
    database.write_bytes(database.read_bytes()[:5000])

    assert f"The database {database} is damaged" in refusal(url_of(database))


def test_reports_a_locked_database_as_locked(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_database, "BUSY_TIMEOUT_S", 0.05)

    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            closing(open_store(url_of(database), create=False)) as store,
            pytest.raises(PerfciError, match="is locked by another perfci process"),
            store.begin(),
        ):
            pass


def test_a_reader_does_not_wait_for_a_writer(store: Store) -> None:
    with store.begin() as writing:
        measured_sessions.start_session(writing, PROJECT, "one", "history", "", 1, 1, NOON)
        with store.read() as tx:
            assert runs_and_sessions.load_sessions(tx, PROJECT) == []


def test_a_second_writer_waits_for_the_first(store: Store) -> None:
    def write(uid: str) -> None:
        with store.begin() as tx:
            measured_sessions.start_session(tx, PROJECT, uid, "history", "", 1, 1, NOON)

    writers = [threading.Thread(target=write, args=[str(number)]) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    with store.read() as tx:
        assert len(runs_and_sessions.load_sessions(tx, PROJECT)) == 8


def test_an_error_rolls_back_the_whole_block_and_its_cached_ids(store: Store) -> None:
    def measure(and_then: Callable[[], None] = lambda: None) -> None:
        with store.begin() as tx:
            run_id = measured_sessions.find_or_add_run(tx, a_run())
            measured_sessions.add_process_measurements(tx, run_id, [(a_series(), a_process())])
            and_then()

    def fail() -> None:
        raise RuntimeError

    with store.begin() as tx:
        measured_sessions.start_session(tx, PROJECT, "session-1", "history", "", 1, 1, NOON)
    with pytest.raises(RuntimeError):
        measure(fail)
    with store.read() as tx:
        assert series_search.search_series(tx, PROJECT) == []

    measure()

    with store.read() as tx:
        assert len(measured_samples.load_session_processes(tx, "session-1")) == 1


def test_reads_a_read_only_database_and_refuses_to_write(database: Path) -> None:
    with closing(open_store(url_of(database), create=False)) as store, store.begin() as tx:
        measured_sessions.start_session(tx, PROJECT, "one", "history", "", 1, 1, NOON)
    let_nobody_write(database)

    answers = ask_without_rights(url_of(database))
    database.parent.chmod(0o755)

    sentence = f"The database {database} is read-only: make it writable, or name another one with --db."
    assert answers == ["one", sentence, sentence]


def let_nobody_write(database: Path) -> None:
    """Take away every right to write, and let every user get through to the file."""
    database.chmod(0o444)
    database.parent.chmod(0o555)
    for folder in database.parents[1:]:
        if folder.stat().st_uid == os.geteuid() and folder not in (Path("/"), Path("/tmp")):
            folder.chmod(folder.stat().st_mode | 0o055)


def ask_without_rights(url: str) -> list[str]:
    """Read and try to write in a process that is not root, for whom no file is read-only."""
    context = multiprocessing.get_context("fork")
    answers: Queue[str] = context.Queue()
    child = context.Process(target=answer_without_rights, args=(url, answers))
    child.start()
    values = [answers.get(timeout=60) for _ in range(3)]
    child.join()
    return values


def answer_without_rights(url: str, answers: Queue[str]) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    store = open_store(url, create=False)
    with store.read() as tx:
        answers.put(runs_and_sessions.load_sessions(tx, PROJECT)[0].uid)
    for attempt in (lambda: store.begin().__enter__(), lambda: open_store(url, create=True)):
        try:
            attempt()
        except PerfciError as error:
            answers.put(str(error))


NOBODY = 65534


def test_a_process_pools_the_configured_number_of_connections(postgres_url: str) -> None:
    with closing(open_store(postgres_url, create=False, pool=3)) as store:
        assert store._engine.pool.size() == 3


def test_replaces_an_idle_connection_that_was_lost(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_database, "IDLE_PING_AFTER_S", 0.0)
    with closing(open_store(postgres_url, create=False)) as store:
        end_connections(store, postgres_url)

        with store.read() as tx:
            assert project_counts.load_projects_with_counts(tx) == []


def test_reports_a_connection_lost_during_a_transaction_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_database, "IDLE_PING_AFTER_S", 3600.0)
    with closing(open_store(postgres_url, create=False)) as store:
        end_connections(store, postgres_url)

        with pytest.raises(PerfciError, match="cannot be reached"), store.read() as tx:
            project_counts.load_projects_with_counts(tx)
        with store.read() as tx:
            assert project_counts.load_projects_with_counts(tx) == []


def end_connections(store: Store, url: str) -> None:
    """Let a store use a connection, and the server end it as when it restarts."""
    with store.read() as tx:
        project_counts.load_projects_with_counts(tx)
    with psycopg.connect(
        parse_database_url(url).set(drivername="postgresql").render_as_string(False), autocommit=True
    ) as item:
        item.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
