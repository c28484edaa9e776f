"""Everything that differs between SQLite and PostgreSQL."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, OperationalError, PendingRollbackError
from sqlalchemy.orm import Session

MIGRATION_LOCK_ID = 7_205_759_403_792
"""The PostgreSQL advisory lock of migrations: an arbitrary number."""

SERIALISATION_FAILURE, DEADLOCK = "40001", "40P01"
"""SQLSTATE codes of conflicting transactions; https://www.postgresql.org/docs/18/errcodes-appendix.html"""

FOREIGN_KEY_VIOLATION = "23503"

POSTGRESQL: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]

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


def is_sqlite(tx: Session | sa.Connection) -> bool:
    """Whether a session or connection is of SQLite."""
    bind = tx.get_bind() if isinstance(tx, Session) else tx
    return bind.dialect.name == "sqlite"


@functools.cache
def postgresql_type_name(column_type: sa.types.TypeEngine[Any]) -> str:
    """Return PostgreSQL's name of a column type, without its length."""
    return str(column_type.compile(POSTGRESQL)).partition("(")[0].lower()


def lock_for_migration(connection: sa.Connection) -> None:
    """Let one program migrate at a time; on SQLite, BEGIN IMMEDIATE has done so already."""
    if not is_sqlite(connection):
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:name)"), {"name": MIGRATION_LOCK_ID})


def is_retryable(error: BaseException | None) -> bool:
    """Whether the same transaction may succeed if it is repeated from its start."""
    if isinstance(error, PendingRollbackError):
        return True  # the connection was lost before a commit was begun
    if not isinstance(error, DBAPIError):
        return False
    # SQLite's busy timeout is over then: SQLITE_BUSY would only wait for it once more.
    return sqlstate_of(error) in (SERIALISATION_FAILURE, DEADLOCK) or bool(error.connection_invalidated)


def is_foreign_key_violation(error: BaseException) -> bool:
    """Whether a statement referred to a missing row."""
    if not isinstance(error, DBAPIError):
        return False
    name = getattr(error.orig, "sqlite_errorname", "")
    return name == "SQLITE_CONSTRAINT_FOREIGNKEY" or sqlstate_of(error) == FOREIGN_KEY_VIOLATION


def describe_operational_error(error: DBAPIError | sqlite3.Error) -> str | None:
    """Say what is wrong with a database, to go after its name; None for an error of the program."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    code = str(getattr(origin, "sqlite_errorname", ""))
    for prefix, sentence in SQLITE_ERROR_MESSAGES.items():
        if code.startswith(prefix):
            return sentence
    lost = isinstance(error, OperationalError) and not isinstance(origin, sqlite3.Error)
    return f"cannot be reached: {str(origin).splitlines()[0]}." if lost else None


def sqlstate_of(error: DBAPIError) -> str:
    """Return the SQLSTATE code of a PostgreSQL error, or an empty string."""
    return str(getattr(error.orig, "sqlstate", None) or "")


@contextlib.contextmanager
def sqlite_writer_lock(database: Path) -> Iterator[None]:
    """Queue for writing to a SQLite file, by a lock file beside it.

    SQLite itself polls, which starves some writers. The queue is only for fairness: the database still
    excludes writers that do not queue.
    """
    descriptor = os.open(
        database.with_name(database.name + "-turn"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def database_size(tx: Session) -> int:
    """Return the size of the database in bytes."""
    if is_sqlite(tx):
        query = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    else:
        query = "SELECT pg_database_size(current_database())"
    return int(tx.scalar(sa.text(query)) or 0)
