"""Transactions of an open database, with the row ids they cache and the statements that run in them."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from perfci.model import PerfciError, Series
from perfci.store.column_conversions import EPOCH, MILLISECOND, as_json
from perfci.store.derived_values import DERIVED_VALUES, DerivedValues
from perfci.store.dialects import (
    SQLITE_ERROR_MESSAGES,
    describe_operational_error,
    is_foreign_key_violation,
    postgresql_type_name,
    sqlite_writer_lock,
)
from perfci.store.tables.base import TableBase

IDS, SERIES_CACHE, CHANGED_PROJECTS = "ids", "series read", "touched projects"
"""Keys of ``Session.info`` under which a transaction keeps values beside the database."""

MAX_CACHED_IDS = 200_000
"""Ids a store caches: those of some thousand series and their newest results, in about 10 MB."""


class StoreUnavailable(PerfciError):
    """The database cannot be used at this moment; callers may retry after ``retry_after`` seconds."""

    retry_after = 2.0


class IdCache:
    """Row ids by value, so that frequent writers query each only once.

    Each transaction and savepoint has a view of its own, whose ``added`` ids are merged into its parent on
    commit, so a rolled-back row never leaves an id behind.
    """

    def __init__(self, parent: IdCache | None = None) -> None:
        self._parent = parent
        self.added: dict[object, int] = {}
        self._levels: tuple[dict[object, int], ...] = (*(parent._levels if parent else ()), self.added)

    def merge_into_parent(self) -> None:
        """Add the new ids to the parent; the oldest ids of a full cache are dropped."""
        assert self._parent is not None
        parent_ids = self._parent.added
        parent_ids.update(self.added)
        if self._parent._parent is None and len(parent_ids) > MAX_CACHED_IDS:
            for key in list(islice(parent_ids, len(parent_ids) - MAX_CACHED_IDS // 2)):
                parent_ids.pop(key, None)

    def clear(self) -> None:
        """Remove all ids, of the parents too."""
        for level in self._levels:
            level.clear()

    def find(self, key: object) -> int | None:
        """Find an id here or in a parent."""
        for level in self._levels:
            if (row_id := level.get(key)) is not None:
                return row_id
        return None


class Store:
    """An open database. ``begin`` writes, ``read`` reads; both yield the session that query functions
    take.
    """

    def __init__(
        self,
        url: str,
        display_name: str,
        engine: sa.Engine,
        check_schema: Callable[[], None],
        *,
        read_only: bool = False,
        path: Path | None = None,
        queue_writers: bool = False,
    ) -> None:
        self.url = url
        self.display_name = display_name
        """The name of this database in messages, without its password."""
        self._engine = engine
        self._writing = engine.execution_options(perfci_begin="IMMEDIATE")
        on_server = engine.dialect.name != "sqlite"  # SQLite's reads are always of one moment
        self._reading = engine.execution_options(isolation_level="REPEATABLE READ") if on_server else engine
        self._read_only = read_only
        self._check_schema = check_schema
        self._path = path
        self._queue_path = path if queue_writers else None
        self._file_identity = read_file_identity(path)
        self._reopening = threading.Lock()
        self._ids = IdCache()
        self._series: dict[int, Series] = {}
        self._derived = DerivedValues()
        self._deletions = 0

    def hide_address(self, message: str, replacement: str) -> str:
        """Replace the address of this database, which may hold a password, in a message for strangers."""
        return message.replace(self.url, replacement).replace(self.display_name, replacement)

    @contextlib.contextmanager
    def begin(self) -> Iterator[Session]:
        """Run a write transaction: committed at the end of the block, rolled back by any exception in it."""
        if self._read_only:
            raise PerfciError(f"The database {self.display_name} {SQLITE_ERROR_MESSAGES['SQLITE_READONLY']}")
        file_identity = read_file_identity(self._path)
        if file_identity != self._file_identity:
            self._reopen(file_identity)
        ids = IdCache(self._ids)
        with (
            translate_errors(self.display_name),
            sqlite_writer_lock(self._queue_path) if self._queue_path else contextlib.nullcontext(),
            Session(self._writing, expire_on_commit=False, info={IDS: ids}) as tx,
        ):
            try:
                with tx.begin():
                    # Take the write lock now: a reader that turns writer later could not wait for it.
                    tx.connection()
                    self._forget_deleted_ids(tx)
                    yield tx
                    # All writers of a busy project contend for its row: lock it last, and in one order.
                    for project_id in sorted(tx.info.pop(CHANGED_PROJECTS, ())):
                        execute_on_driver(
                            tx, "UPDATE projects SET version = version + 1 WHERE id = ?", [project_id]
                        )
            except IntegrityError as error:
                self._clear_stale_ids(ids, error)
                raise
            if read_file_identity(self._path) != file_identity:
                # The rows may be in the file that was moved away: the caller has to write them again.
                raise StoreUnavailable(f"The database {self.display_name} was replaced meanwhile: try again.")
            if ids.added:
                ids.merge_into_parent()

    @contextlib.contextmanager
    def savepoint(self, tx: Session) -> Iterator[Session]:
        """Run a part of a write transaction that an exception rolls back alone, with its cached ids."""
        outer_ids, changed_before = tx.info[IDS], set(tx.info.get(CHANGED_PROJECTS, ()))
        # A fixed name: SQLAlchemy's savepoints have changing names, which defeat statement caches.
        execute = tx.connection().exec_driver_sql
        execute("SAVEPOINT part")
        tx.info[IDS] = ids = IdCache(outer_ids)
        try:
            yield tx
            tx.flush()
            execute("RELEASE SAVEPOINT part")
            if ids.added:
                ids.merge_into_parent()
        except BaseException as error:
            tx.info[CHANGED_PROJECTS] = changed_before
            tx.expunge_all()
            if isinstance(error, IntegrityError):
                self._clear_stale_ids(ids, error)
            try:
                execute("ROLLBACK TO SAVEPOINT part")
                execute("RELEASE SAVEPOINT part")
            except DBAPIError as lost:
                # The whole transaction is gone, as SQLite does on a full disk: report its first error.
                raise (error if isinstance(error, DBAPIError) else lost) from None
            raise
        finally:
            tx.info[IDS] = outer_ids

    def _clear_stale_ids(self, ids: IdCache, error: IntegrityError) -> None:
        """Clear all cached ids when a row is missing: the database was restored under a running program."""
        if is_foreign_key_violation(error):
            ids.clear()
            self._series.clear()
            self._derived.clear()

    def _forget_deleted_ids(self, tx: Session) -> None:
        """Forget cached ids after rows were deleted, by any process: SQLite gives their ids to new rows.

        PostgreSQL never does, and a cached id of a deleted row is noticed by its foreign key.
        """
        if self._path is None:
            return
        [deletions] = execute_on_driver(tx, "PRAGMA user_version").fetchone()
        if deletions != self._deletions:
            self._ids.clear()
            self._series = {}  # a new one: a reader of an older moment may still add to the other
            self._derived = DerivedValues()
            self._deletions = deletions

    def _reopen(self, file_identity: tuple[int, int] | None) -> None:
        """Reconnect to another file, such as a restored backup, that has the name of the SQLite database.

        SQLite goes on with the file it opened, wherever it was moved: what is written there would be lost.
        """
        if file_identity is None:
            raise StoreUnavailable(
                f"The database {self.display_name} was moved away: put it, or a backup, there."
            )
        with self._reopening:
            if file_identity != self._file_identity:
                self._engine.dispose()
                self._ids.clear()
                self._series.clear()
                self._derived.clear()
                try:
                    with translate_errors(self.display_name):
                        self._check_schema()
                except PerfciError as error:
                    raise StoreUnavailable(str(error)) from error
                self._file_identity = file_identity

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """Run a read transaction: one consistent snapshot of the database."""
        file_identity = read_file_identity(self._path)
        if file_identity != self._file_identity:
            self._reopen(file_identity)
        info = {IDS: IdCache(self._ids)}
        with (
            translate_errors(self.display_name),
            Session(self._reading, expire_on_commit=False, info=info) as tx,
            tx.begin(),
        ):
            self._forget_deleted_ids(tx)
            tx.info[SERIES_CACHE] = self._series
            tx.info[DERIVED_VALUES] = self._derived
            yield tx

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def read_file_identity(path: Path | None) -> tuple[int, int] | None:
    """Read the device and inode number of a file; None where there is none."""
    if path is None:
        return None
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def begin_sqlite_transaction(connection: sa.Connection) -> None:
    """Begin a transaction for SQLAlchemy: the driver itself would begin it too late, and never to read."""
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('perfci_begin', '')}")


@contextlib.contextmanager
def translate_errors(display_name: str) -> Iterator[None]:
    """Turn operational errors of the database into a message; programming errors stay tracebacks."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        sentence = describe_operational_error(error)
        if sentence is None:
            raise
        raise PerfciError(f"The database {display_name} {sentence}") from error


def forget_cached_ids(tx: Session) -> None:
    """Let all processes forget the ids they cache, when this transaction has deleted rows with ids."""
    if tx.get_bind().dialect.name == "sqlite":
        [deletions] = execute_on_driver(tx, "PRAGMA user_version").fetchone()
        execute_on_driver(tx, f"PRAGMA user_version = {(deletions + 1) % 2**31:d}")
    ids: IdCache = tx.info[IDS]
    ids.clear()


CHUNK = 500
"""Values in one IN list, well under what any database accepts."""

MAX_ROWS_PER_INSERT = 1000
"""Rows of one statement: their values stay well below the 32,766 that SQLite takes."""

IdT = TypeVar("IdT", int, str)


def in_chunks(ids: Collection[IdT]) -> Iterator[Sequence[IdT]]:
    """Yield ids in chunks that fit into one query."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]


def execute_and_count_rows(tx: Session, statement: Any, values: Any = None) -> int:
    """Run a statement and return how many rows it changed: 0 means that its condition no longer held."""
    return cast(sa.CursorResult[Any], tx.execute(statement, values)).rowcount


def execute_on_driver(tx: Session, statement: str, parameters: Sequence[Any] = ()) -> Any:
    """Run SQL with ``?`` placeholders on the driver itself.

    It is for statements of every upload: SQLAlchemy takes longer to build them than the database to run
    them.
    """
    connection: Any = tx.connection().connection.driver_connection
    if not isinstance(connection, sqlite3.Connection):
        statement = statement.replace("?", "%s")
    try:
        return connection.execute(statement, parameters)
    except Exception as error:
        _raise_driver_error(tx, error)
        raise


def insert_rows(
    tx: Session, table: sa.Table, rows: Sequence[Mapping[str, Any]], *returning: str, ignore: bool = False
) -> list[tuple[Any, ...]]:
    """Insert rows with equal columns in one statement; return columns of the rows added, in no order.

    With ``ignore``, rows whose key exists are skipped and not returned.
    """
    rows_added: list[tuple[Any, ...]] = []
    on_conflict = " ON CONFLICT DO NOTHING" if ignore else ""
    for start in range(0, len(rows), MAX_ROWS_PER_INSERT):
        some = rows[start : start + MAX_ROWS_PER_INSERT]
        names = ", ".join(f'"{name}"' for name in some[0])
        places = f"({', '.join('?' * len(some[0]))})"
        all_places = ", ".join([places] * len(some))
        answered = ", ".join(returning)
        insert = f"INSERT INTO {table.name} ({names}) VALUES {all_places}{on_conflict} RETURNING {answered}"
        values: list[Any] = []
        for value in (value for row in some for value in row.values()):
            # SQLAlchemy's column types are bypassed, so their conversions are made here.
            if isinstance(value, datetime):
                values.append((value - EPOCH) // MILLISECOND)
            elif isinstance(value, (tuple, list, dict)):
                values.append(as_json(value))
            else:
                values.append(value)
        rows_added += execute_on_driver(tx, insert, values).fetchall()
    return rows_added


def build_insert_or_ignore(tx: Session, row: type[TableBase], *returning: str) -> Any:
    """Build an INSERT that skips existing keys and returns columns of the rows it added."""
    insert: Any = sqlite.insert if tx.get_bind().dialect.name == "sqlite" else postgresql.insert
    statement = insert(row.__table__).on_conflict_do_nothing()
    return statement.returning(*(row.__table__.c[name] for name in returning)) if returning else statement


def reserve_ids(tx: Session, table: sa.Table, count: int) -> list[int]:
    """Reserve unused ids of a table; on SQLite the write lock keeps others from taking them."""
    if tx.get_bind().dialect.name == "sqlite":
        [first] = execute_on_driver(tx, f"SELECT coalesce(max(id), 0) + 1 FROM {table.name}").fetchone()
        return list(range(first, first + count))
    drawn = f"SELECT nextval('{table.name}_id_seq') FROM generate_series(1, {count:d})"
    return [row_id for (row_id,) in execute_on_driver(tx, drawn).fetchall()]


def bulk_insert(tx: Session, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of plain values in the order of ``columns``; by COPY on PostgreSQL."""
    if not rows:
        return
    names = ", ".join(f'"{name}"' for name in columns)
    connection: Any = tx.connection().connection.driver_connection
    try:
        if isinstance(connection, sqlite3.Connection):
            places = ", ".join("?" * len(columns))
            connection.executemany(f"INSERT INTO {table.name} ({names}) VALUES ({places})", rows)
            return
        # The text format takes four times as long to write.
        binary = f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)"
        with connection.cursor() as cursor, cursor.copy(binary) as copy:
            copy.set_types([postgresql_type_name(table.c[name].type) for name in columns])
            for row in rows:
                copy.write_row(row)
    except Exception as error:
        _raise_driver_error(tx, error)
        raise


def _raise_driver_error(tx: Session, error: Exception) -> None:
    """Raise an error of the driver as SQLAlchemy would; return if it is another error."""
    dialect: Any = tx.get_bind().dialect
    base = dialect.dbapi.Error
    if isinstance(error, base):
        lost = dialect.is_disconnect(error, tx.connection().connection, None)
        raise DBAPIError.instance(
            "(by the driver)", None, error, base, connection_invalidated=lost
        ) from error
