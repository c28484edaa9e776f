"""Open or make a database: its address, its file, its engine and its schema."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import InvalidatePoolError, SQLAlchemyError

from perfci.model import PerfciError
from perfci.store.dialects import SQLITE_ERROR_MESSAGES
from perfci.store.transactions import (
    Store,
    begin_sqlite_transaction,
    translate_errors,
)

SCHEMA = "0035"
"""The newest migration, and the only schema this program reads and writes."""

BUSY_TIMEOUT_S = 30.0
"""Seconds a writer waits for a lock."""

POOL_SIZE = 16
"""Connections of one process to PostgreSQL, whose own limit of 100 several processes share."""

CONNECT_TIMEOUT_S = 5

IDLE_PING_AFTER_S = 1.0
"""Idle time in seconds after which a connection is checked before its next use."""

IDLE_SINCE = "perfci rests since"

SQLITE_HEADER = b"SQLite format 3\x00"

SIDE_FILE_SUFFIXES = ("-wal", "-shm", "-journal")
"""Files that belong to a SQLite database beside the one of its name."""


def open_store(url: str, *, create: bool, durable: bool = False, pool: int = POOL_SIZE) -> Store:
    """Open a database of the current schema; with ``create``, make an absent or empty one.

    ``durable`` is for servers: commits survive a power cut, and writers of a SQLite file queue.
    PostgreSQL does both by itself.
    """
    address = parse_database_url(url)
    shown = format_address(address)
    read_only = check_sqlite_file(address, create=create)
    engine = make_engine(address, read_only=read_only, durable=durable, pool=pool)
    try:
        with translate_errors(shown):
            current_schema = read_schema_version(engine, shown)
            if current_schema is None and create:
                # Alembic takes long to import: only where it migrates.
                from perfci.store.migrate_schema import migrate

                migrate(engine)
                current_schema = read_schema_version(engine, shown)
        _require_current(shown, current_schema)
    except BaseException:
        engine.dispose()
        raise
    return Store(
        url,
        shown,
        engine,
        lambda: _require_current(shown, read_schema_version(engine, shown)),
        read_only=read_only,
        path=sqlite_file_of_address(address),
        queue_writers=durable,
    )


def parse_database_url(url: str) -> sa.URL:
    """Parse a database URL; only SQLite and PostgreSQL are supported."""
    try:
        address = sa.make_url(url)
    except SQLAlchemyError as error:
        raise PerfciError(
            f"Not a database URL: {url!r}; expected for example sqlite:///.perfci/perfci.db."
        ) from error
    if address.get_backend_name() not in ("sqlite", "postgresql"):
        raise PerfciError(f"The database of {url!r} is neither SQLite nor PostgreSQL.")
    if address.get_backend_name() == "sqlite" and address.database in (None, "", ":memory:"):
        raise PerfciError(
            f"The database {url!r} names no file; expected for example sqlite:///.perfci/perfci.db."
        )
    return address


def sqlite_file_of_address(address: sa.URL) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    return Path(str(address.database)) if address.get_backend_name() == "sqlite" else None


def find_sqlite_file(url: str) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    return sqlite_file_of_address(parse_database_url(url))


def format_address(address: sa.URL) -> str:
    """Format a database address for messages: its file, or its address without the password."""
    return str(sqlite_file_of_address(address) or address.render_as_string(hide_password=True))


def make_engine(
    address: sa.URL, *, read_only: bool = False, durable: bool = False, pool: int = POOL_SIZE
) -> sa.Engine:
    """Make the SQLAlchemy engine of a database."""
    path = sqlite_file_of_address(address)
    if path is None:
        return _make_server_engine(address, pool)
    if read_only:
        engine = sa.create_engine(
            "sqlite://", creator=lambda: _connect_read_only(path), poolclass=sa.QueuePool
        )
        pragmas: tuple[str, ...] = ()
    else:
        engine = sa.create_engine(address, connect_args={"timeout": BUSY_TIMEOUT_S})
        pragmas = (*PRAGMAS, "synchronous=FULL") if durable else PRAGMAS
    sa.event.listen(engine, "connect", partial(_configure_sqlite, pragmas))
    sa.event.listen(engine, "begin", begin_sqlite_transaction)
    return engine


def _make_server_engine(address: sa.URL, pool: int) -> sa.Engine:
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    try:
        engine = sa.create_engine(
            address, pool_size=pool, connect_args={"connect_timeout": CONNECT_TIMEOUT_S}
        )
    except ModuleNotFoundError as error:
        raise PerfciError(
            f"PostgreSQL needs a driver: run `pip install 'psycopg[binary]'` ({error})."
        ) from error
    sa.event.listen(engine, "checkin", _mark_idle)
    sa.event.listen(engine, "checkout", partial(_ping_if_idle, engine.dialect))
    return engine


def _mark_idle(_connection: object, record: sa.pool.ConnectionPoolEntry) -> None:
    record.info[IDLE_SINCE] = time.monotonic()


def _ping_if_idle(
    dialect: sa.Dialect, connection: Any, record: sa.pool.ConnectionPoolEntry, _proxy: object
) -> None:
    """Replace broken connections after an idle time: a ping before every use would cost as much as a
    query.
    """
    if time.monotonic() - record.info.get(IDLE_SINCE, math.inf) > IDLE_PING_AFTER_S:
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError("the connection was lost while it rested") from error


def read_schema_version(engine: sa.Engine, display_name: str) -> str | None:
    """Read the migration a database is at; None for an empty one. Raise for a database that is not
    perfci's.
    """
    with engine.connect() as connection:
        tables = set(sa.inspect(connection).get_table_names())
        if not tables:
            return None
        if "alembic_version" not in tables or "projects" not in tables:
            raise PerfciError(
                f"The database {display_name} holds other tables than perfci's: name another one with --db."
            )
        return str(connection.scalar(sa.text("SELECT version_num FROM alembic_version")))


def is_older_schema(schema: str | None) -> bool:
    """Whether a schema needs an upgrade."""
    return schema is not None and schema < SCHEMA


def require_schema_not_newer(display_name: str, schema: str | None) -> None:
    """Raise if a newer perfci made the database."""
    if schema is not None and schema > SCHEMA:
        raise PerfciError(
            f"The database {display_name} was made by a newer perfci "
            f"(schema {schema}, this one knows {SCHEMA}): update perfci."
        )


def check_sqlite_file(address: sa.URL, *, create: bool) -> bool:
    """Check a SQLite file, for better errors than SQLite's; return whether it is read-only."""
    path = sqlite_file_of_address(address)
    if path is None:
        return False
    if path.is_dir():
        raise PerfciError(f"The database {path} is a folder; expected a file.")
    if not path.exists():
        if not create:
            raise PerfciError(f"There is no database at {path}: measure something first with `perfci run`.")
        require_no_sqlite_side_files(path)
        make_database_folder(path.parent)
        # Keys of cookies and addresses of web hooks are in it: SQLite itself makes files that all may read.
        path.touch(mode=0o600)
        return False
    _require_sqlite(path)
    read_only = not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    if read_only and create:
        raise PerfciError(f"The database {path} {SQLITE_ERROR_MESSAGES['SQLITE_READONLY']}")
    return read_only


def require_no_sqlite_side_files(path: Path) -> None:
    """Raise if side files of a database that was moved away lie where a new one is to be made.

    SQLite would replay them into the new file and corrupt it: "unlinking or renaming a database file while
    in use" and "mispairing database files and hot journals", https://www.sqlite.org/howtocorrupt.html.
    """
    side_files = [path.with_name(path.name + suffix) for suffix in SIDE_FILE_SUFFIXES]
    left_over = [file.name for file in side_files if file.exists()]
    if left_over:
        raise PerfciError(
            f"{path.parent} holds {' and '.join(left_over)} without {path.name}: they may hold the last "
            f"writes of a database that was moved away. Move them where {path.name} went, and try again."
        )


def _require_current(display_name: str, schema: str | None) -> None:
    require_schema_not_newer(display_name, schema)
    if schema is None:
        raise PerfciError(f"The database {display_name} is empty: measure something first with `perfci run`.")
    if is_older_schema(schema):
        raise PerfciError(
            f"The database {display_name} has the older schema {schema}, this perfci needs {SCHEMA}: "
            "run `perfci db upgrade`."
        )


def make_database_folder(folder: Path) -> None:
    """Make the folder of a database."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PerfciError(f"Cannot make the folder {folder} for the database: {error.strerror}.") from error
    if not os.access(folder, os.W_OK):
        raise PerfciError(f"Cannot make a database in {folder}: the folder is read-only.")


def _require_sqlite(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(len(SQLITE_HEADER))
    except OSError as error:
        raise PerfciError(f"Cannot read the database {path}: {error.strerror}.") from error
    if start and start != SQLITE_HEADER:
        raise PerfciError(f"{path} is not a database: expected a SQLite file; name another one with --db.")


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Connect without writing any side file; an existing write-ahead log needs SQLite's shared memory."""
    log = path.with_name(path.name + "-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
    address = f"{path.resolve().as_uri()}?{mode}"
    return sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False)


PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON")


def _configure_sqlite(pragmas: Sequence[str], connection: Any, _record: object) -> None:
    """Turn off the driver's own transactions: it begins them too late, and never for a SELECT."""
    connection.isolation_level = None
    for pragma in pragmas:
        _execute_when_free(connection, f"PRAGMA {pragma}")


def _execute_when_free(connection: sqlite3.Connection, statement: str) -> None:
    """Retry a statement while the database is locked: SQLite does not wait when it creates the log."""
    until = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.02)
