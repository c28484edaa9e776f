"""Open a database: its engine, its transactions, and readable errors."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidatePoolError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from perfci.model import PerfciError, Series
from perfci.store.dialects import is_foreign_key_violation, writer_lock
from perfci.store.id_cache import CHANGED_PROJECTS, SERIES_CACHE, IdCache
from perfci.store.projects import increment_versions

SCHEMA = "0016"
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


class Store:
    """An open database. ``begin`` writes, ``read`` reads; both yield the session that query functions
    take.
    """

    def __init__(
        self,
        url: str,
        display_name: str,
        engine: sa.Engine,
        *,
        read_only: bool = False,
        queue_path: Path | None = None,
    ) -> None:
        self.url = url
        self._display_name = display_name
        self._engine = engine
        self._writing = engine.execution_options(perfci_begin="IMMEDIATE")
        on_server = engine.dialect.name != "sqlite"  # SQLite's reads are always of one moment
        self._reading = engine.execution_options(isolation_level="REPEATABLE READ") if on_server else engine
        self._read_only = read_only
        self._queue_path = queue_path
        self._ids = IdCache()
        self._series: dict[int, Series] = {}

    @property
    def display_name(self) -> str:
        """The name of this database in messages, without its password."""
        return self._display_name

    @contextlib.contextmanager
    def begin(self) -> Iterator[Session]:
        """Run a write transaction: committed at the end of the block, rolled back by any exception in it."""
        if self._read_only:
            raise PerfciError(f"The database {self._display_name} {SQLITE_ERROR_MESSAGES['SQLITE_READONLY']}")
        ids = IdCache(self._ids)
        with (
            translate_errors(self._display_name),
            writer_lock(self._queue_path) if self._queue_path else contextlib.nullcontext(),
            Session(self._writing, expire_on_commit=False, info={"ids": ids}) as tx,
            self._clear_stale_ids(ids),
        ):
            with tx.begin():
                # Take the write lock now: a reader that turns writer later could not wait for it.
                tx.connection()
                yield tx
                increment_versions(tx)
            ids.merge_into_parent()

    @contextlib.contextmanager
    def savepoint(self, tx: Session) -> Iterator[Session]:
        """Run a part of a write transaction that an exception rolls back alone, with its cached ids."""
        around, touched = tx.info["ids"], set(tx.info.get(CHANGED_PROJECTS, ()))
        tx.info["ids"] = ids = IdCache(around)
        try:
            with self._clear_stale_ids(ids), _named_savepoint(tx):
                yield tx
            ids.merge_into_parent()
        except BaseException:
            tx.info[CHANGED_PROJECTS] = touched
            raise
        finally:
            tx.info["ids"] = around

    @contextlib.contextmanager
    def _clear_stale_ids(self, ids: IdCache) -> Iterator[None]:
        """Clear all cached ids when a row is missing: the database was restored under a running program."""
        try:
            yield
        except IntegrityError as error:
            if is_foreign_key_violation(error):
                ids.clear()
                self._series.clear()
            raise

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """Run a read transaction: one consistent snapshot of the database."""
        info = {"ids": IdCache(self._ids), SERIES_CACHE: self._series}
        with (
            translate_errors(self._display_name),
            Session(self._reading, expire_on_commit=False, info=info) as tx,
            tx.begin(),
        ):
            yield tx

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


@contextlib.contextmanager
def _named_savepoint(tx: Session) -> Iterator[None]:
    """Open a savepoint with a fixed name: SQLAlchemy's names change, which defeats statement caches."""
    execute = tx.connection().exec_driver_sql
    execute("SAVEPOINT part")
    try:
        yield
        tx.flush()
    except BaseException as error:
        tx.expunge_all()
        try:
            execute("ROLLBACK TO SAVEPOINT part")
            execute("RELEASE SAVEPOINT part")
        except DBAPIError as lost:
            # The whole transaction is gone, as SQLite does on a full disk: report its first error.
            raise (error if isinstance(error, DBAPIError) else lost) from None
        raise
    execute("RELEASE SAVEPOINT part")


def open_store(url: str, *, create: bool, durable: bool = False, pool: int = POOL_SIZE) -> Store:
    """Open a database of the current schema; with ``create``, make an absent or empty one.

    ``durable`` is for servers: commits survive a power cut, and writers of a SQLite file queue.
    PostgreSQL does both by itself.
    """
    address = parse_database_url(url)
    shown = format_address(address)
    read_only = prepare_file(address, create=create)
    engine = make_engine(address, read_only=read_only, durable=durable, pool=pool)
    try:
        with translate_errors(shown):
            current_schema = read_schema(engine, shown)
            if current_schema is None and create:
                # Alembic takes long to import: only where it migrates.
                from perfci.store.schema import migrate

                migrate(engine)
                current_schema = read_schema(engine, shown)
        _require_current(shown, current_schema)
    except BaseException:
        engine.dispose()
        raise
    return Store(
        url, shown, engine, read_only=read_only, queue_path=sqlite_path(address) if durable else None
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


def sqlite_path(address: sa.URL) -> Path | None:
    """Return the file of a SQLite database; None for PostgreSQL."""
    return Path(str(address.database)) if address.get_backend_name() == "sqlite" else None


def format_address(address: sa.URL) -> str:
    """Format a database address for messages: its file, or its address without the password."""
    return str(sqlite_path(address) or address.render_as_string(hide_password=True))


def make_engine(
    address: sa.URL, *, read_only: bool = False, durable: bool = False, pool: int = POOL_SIZE
) -> sa.Engine:
    """Make the SQLAlchemy engine of a database."""
    path = sqlite_path(address)
    if path is None:
        return _make_server_engine(address, pool)
    if read_only:
        engine = sa.create_engine(
            "sqlite://", creator=lambda: _connect_read_only(path), poolclass=sa.QueuePool
        )
    else:
        engine = sa.create_engine(address, connect_args={"timeout": BUSY_TIMEOUT_S})
    pragmas = () if read_only else (*PRAGMAS, "synchronous=FULL") if durable else PRAGMAS
    sa.event.listen(engine, "connect", partial(_configure_sqlite, pragmas))
    sa.event.listen(engine, "begin", _begin_transaction)
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


def read_schema(engine: sa.Engine, display_name: str) -> str | None:
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


def require_not_newer(display_name: str, schema: str | None) -> None:
    """Raise if a newer perfci made the database."""
    if schema is not None and schema > SCHEMA:
        raise PerfciError(
            f"The database {display_name} was made by a newer perfci "
            f"(schema {schema}, this one knows {SCHEMA}): update perfci."
        )


def prepare_file(address: sa.URL, *, create: bool) -> bool:
    """Check a SQLite file, for better errors than SQLite's; return whether it is read-only."""
    path = sqlite_path(address)
    if path is None:
        return False
    if path.is_dir():
        raise PerfciError(f"The database {path} is a folder; expected a file.")
    if not path.exists():
        if not create:
            raise PerfciError(f"There is no database at {path}: measure something first with `perfci run`.")
        _make_folder(path.parent)
        return False
    _require_sqlite(path)
    read_only = not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    if read_only and create:
        raise PerfciError(f"The database {path} {SQLITE_ERROR_MESSAGES['SQLITE_READONLY']}")
    return read_only


def _require_current(display_name: str, schema: str | None) -> None:
    require_not_newer(display_name, schema)
    if schema is None:
        raise PerfciError(f"The database {display_name} is empty: measure something first with `perfci run`.")
    if is_older_schema(schema):
        raise PerfciError(
            f"The database {display_name} has the older schema {schema}, this perfci needs {SCHEMA}: "
            "run `perfci db upgrade`."
        )


def _make_folder(folder: Path) -> None:
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


def _begin_transaction(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('perfci_begin', '')}")


@contextlib.contextmanager
def translate_errors(display_name: str) -> Iterator[None]:
    """Turn operational errors of the database into a message; programming errors stay tracebacks."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        sentence = _error_message(error)
        if sentence is None:
            raise
        raise PerfciError(f"The database {display_name} {sentence}") from error


def _error_message(error: DBAPIError | sqlite3.Error) -> str | None:
    origin = error.orig if isinstance(error, DBAPIError) else error
    code = str(getattr(origin, "sqlite_errorname", ""))
    for prefix, sentence in SQLITE_ERROR_MESSAGES.items():
        if code.startswith(prefix):
            return sentence
    lost = isinstance(error, OperationalError) and not isinstance(origin, sqlite3.Error)
    return f"cannot be reached: {str(origin).splitlines()[0]}." if lost else None


SQLITE_ERROR_MESSAGES = {
    "SQLITE_BUSY": "is locked by another perfci process: wait for it to finish and try again.",
    "SQLITE_LOCKED": "is locked by another perfci process: wait for it to finish and try again.",
    "SQLITE_READONLY": "is read-only: make it writable, or name another one with --db.",
    "SQLITE_NOTADB": "is not a SQLite database: name another one with --db.",
    "SQLITE_CORRUPT": "is damaged: restore a backup, or see `perfci db check`.",
    "SQLITE_FULL": "cannot grow: the disk is full.",
    "SQLITE_CANTOPEN": "cannot be opened: check that the file and its folder can be read.",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error.",
}
