"""Execute statements in a transaction: in chunks, on the driver itself, and inserts of many rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from perfci.store.column_conversions import EPOCH, MILLISECOND, as_json
from perfci.store.dialects import postgresql_type_name
from perfci.store.tables.base import TableBase

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
