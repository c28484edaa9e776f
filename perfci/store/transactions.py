"""Transactions of an open database, and the row ids that they cache."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from perfci.model import PerfciError, Series
from perfci.store.dialects import (
    SQLITE_ERROR_MESSAGES,
    describe_operational_error,
    is_foreign_key_violation,
    writer_lock,
)
from perfci.store.statement_execution import execute_on_driver

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
            writer_lock(self._queue_path) if self._queue_path else contextlib.nullcontext(),
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
