"""Everything that differs between SQLite and PostgreSQL."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.orm import Session

from perfci.store.tables.base import TableBase, to_column_value

MIGRATION_LOCK_ID = 7_205_759_403_792
"""The PostgreSQL advisory lock of migrations: an arbitrary number."""

SERIALISATION_FAILURE, DEADLOCK = "40001", "40P01"
"""SQLSTATE codes of conflicting transactions; https://www.postgresql.org/docs/18/errcodes-appendix.html"""

FOREIGN_KEY_VIOLATION = "23503"

POSTGRESQL: sa.Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]

CHUNK = 500
"""Values in one IN list, well under what any database accepts."""

IdT = TypeVar("IdT", int, str)

MAX_ROWS_PER_INSERT = 1000
"""Rows of one statement: their values stay well below the 32,766 that SQLite takes."""


def is_sqlite(tx: Session | sa.Connection) -> bool:
    """Whether a session or connection is of SQLite."""
    bind = tx.get_bind() if isinstance(tx, Session) else tx
    return bind.dialect.name == "sqlite"


def insert_or_ignore(tx: Session, row: type[TableBase], *returning: str) -> Any:
    """Build an INSERT that skips existing keys and returns columns of the rows it added."""
    return _insert_or_ignore(tx.get_bind().dialect.name, cast(sa.Table, row.__table__), returning)


@functools.cache
def _insert_or_ignore(dialect: str, table: sa.Table, returning: tuple[str, ...]) -> Any:
    dialects: dict[str, Callable[[Any], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
    statement = dialects[dialect](table).on_conflict_do_nothing()
    return statement.returning(*(table.c[name] for name in returning)) if returning else statement


def in_chunks(ids: Collection[IdT]) -> Iterator[Sequence[IdT]]:
    """Yield ids in chunks that fit into one query."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]


def placeholders(count: int) -> str:
    """Build the parameter list of a statement for ``execute_sql``."""
    return ", ".join("?" * count)


def execute_sql(tx: Session, statement: str, parameters: Sequence[Any] = ()) -> Any:
    """Run SQL with ``?`` placeholders on the driver itself.

    It is for statements of every upload: SQLAlchemy takes longer to build them than the database to run
    them.
    """
    with _wrap_driver_errors(tx):
        return _driver_connection(tx).execute(
            statement if is_sqlite(tx) else statement.replace("?", "%s"), parameters
        )


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
        all_places = ", ".join([f"({placeholders(len(some[0]))})"] * len(some))
        answered = ", ".join(returning)
        insert = f"INSERT INTO {table.name} ({names}) VALUES {all_places}{on_conflict} RETURNING {answered}"
        rows_added += execute_sql(
            tx, insert, [to_column_value(value) for row in some for value in row.values()]
        ).fetchall()
    return rows_added


def new_ids(tx: Session, table: sa.Table, count: int) -> list[int]:
    """Reserve unused ids of a table; on SQLite the write lock keeps others from taking them."""
    if is_sqlite(tx):
        [first] = execute_sql(tx, f"SELECT coalesce(max(id), 0) + 1 FROM {table.name}").fetchone()
        return list(range(first, first + count))
    drawn = f"SELECT nextval('{table.name}_id_seq') FROM generate_series(1, {count:d})"
    return [row_id for (row_id,) in execute_sql(tx, drawn).fetchall()]


def bulk_insert(tx: Session, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows of plain values in the order of ``columns``; by COPY on PostgreSQL."""
    if not rows:
        return
    names = ", ".join(f'"{name}"' for name in columns)
    with _wrap_driver_errors(tx):
        if is_sqlite(tx):
            _driver_connection(tx).executemany(
                f"INSERT INTO {table.name} ({names}) VALUES ({placeholders(len(columns))})", rows
            )
            return
        # The text format takes four times as long to write.
        binary = f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)"
        with _driver_connection(tx).cursor() as cursor, cursor.copy(binary) as copy:
            copy.set_types([postgresql_type_name(table.c[name].type) for name in columns])
            for row in rows:
                copy.write_row(row)


@functools.cache
def postgresql_type_name(column_type: sa.types.TypeEngine[Any]) -> str:
    """Return PostgreSQL's name of a column type, without its length."""
    return str(column_type.compile(POSTGRESQL)).partition("(")[0].lower()


def _driver_connection(tx: Session) -> Any:
    return tx.connection().connection.driver_connection


@contextlib.contextmanager
def _wrap_driver_errors(tx: Session) -> Iterator[None]:
    """Raise errors of the driver as SQLAlchemy would."""
    try:
        yield
    except Exception as error:
        dialect: Any = tx.get_bind().dialect
        base = dialect.dbapi.Error
        if not isinstance(error, base):
            raise
        lost = dialect.is_disconnect(error, tx.connection().connection, None)
        raise DBAPIError.instance(
            "(by the driver)", None, error, base, connection_invalidated=lost
        ) from error


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


def execute_rowcount(tx: Session, statement: Any, values: Any = None) -> int:
    """Run a statement and return how many rows it changed: 0 means that its condition no longer held."""
    return cast(sa.CursorResult[Any], tx.execute(statement, values)).rowcount
