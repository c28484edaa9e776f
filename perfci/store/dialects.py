"""Everything that differs between SQLite and PostgreSQL."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.orm import Session

from perfci.store.tables.base import TableBase

MIGRATION_LOCK_ID = 7_205_759_403_792
"""The PostgreSQL advisory lock of migrations: an arbitrary number."""

SERIALISATION_FAILURE, DEADLOCK = "40001", "40P01"
"""SQLSTATE codes of conflicting transactions; https://www.postgresql.org/docs/18/errcodes-appendix.html"""

FOREIGN_KEY_VIOLATION = "23503"

POSTGRESQL: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]

CHUNK = 500
"""Values in one IN list, well under what any database accepts."""

IdT = TypeVar("IdT", int, str)


def is_sqlite(tx: Session | sa.Connection) -> bool:
    """Whether a session or connection is of SQLite."""
    bind = tx.get_bind() if isinstance(tx, Session) else tx
    return bind.dialect.name == "sqlite"


def insert_or_ignore(tx: Session, row: type[TableBase], *returning: str) -> Any:
    """Build an INSERT that skips existing keys and returns columns of the rows it added."""
    insert: Any = sqlite.insert if tx.get_bind().dialect.name == "sqlite" else postgresql.insert
    statement = insert(row.__table__).on_conflict_do_nothing()
    return statement.returning(*(row.__table__.c[name] for name in returning)) if returning else statement


def in_chunks(ids: Collection[IdT]) -> Iterator[Sequence[IdT]]:
    """Yield ids in chunks that fit into one query."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]


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
    if str(getattr(error.orig, "sqlite_errorname", "")).startswith("SQLITE_BUSY"):
        return True
    return sqlstate_of(error) in (SERIALISATION_FAILURE, DEADLOCK) or bool(error.connection_invalidated)


def is_foreign_key_violation(error: BaseException) -> bool:
    """Whether a statement referred to a missing row."""
    if not isinstance(error, DBAPIError):
        return False
    name = getattr(error.orig, "sqlite_errorname", "")
    return name == "SQLITE_CONSTRAINT_FOREIGNKEY" or sqlstate_of(error) == FOREIGN_KEY_VIOLATION


def sqlstate_of(error: DBAPIError) -> str:
    """Return the SQLSTATE code of a PostgreSQL error, or an empty string."""
    return str(getattr(error.orig, "sqlstate", None) or "")


@contextlib.contextmanager
def writer_lock(database: Path) -> Iterator[None]:
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


def execute_and_count_rows(tx: Session, statement: Any, values: Any = None) -> int:
    """Run a statement and return how many rows it changed: 0 means that its condition no longer held."""
    return cast(sa.CursorResult[Any], tx.execute(statement, values)).rowcount
