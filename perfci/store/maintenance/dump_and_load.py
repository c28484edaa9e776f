"""Dump a whole database to one file of JSON lines, and load it into a database of either kind.

The first line names the format; then each table has a line with its name and columns, followed by a line
for each row; the last line holds the number of rows, which detects truncated files.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store.dialects import is_sqlite
from perfci.store.open_database import SCHEMA, open_store
from perfci.store.tables.work_queue_and_leases import LeaseRow
from perfci.store.transactions import Store, bulk_insert

DUMP_FORMAT = "perfci.dump/1"

ROWS_PER_CHUNK = 5000
"""Rows in memory at once: a few MB."""


def write_dump(store: Store, path: Path) -> int:
    """Write a consistent snapshot of the store to a file; return the number of rows."""
    unfinished = path.with_name(path.name + ".part")
    unfinished.touch(mode=0o600)
    try:
        with store.read() as tx, gzip.open(unfinished, "wt", compresslevel=3) as file:
            rows = 0
            file.write(_encode_line({"kind": DUMP_FORMAT, "schema": SCHEMA}))
            for table in _list_tables():
                file.write(
                    _encode_line({"table": table.name, "columns": [column.name for column in table.columns]})
                )
                for row in _read_rows(tx, table):
                    file.write(_encode_line([_encode_value(value) for value in row]))
                    rows += 1
            file.write(_encode_line({"rows": rows}))
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows


def load_dump(url: str, path: Path) -> int:
    """Load a dump into an absent or empty database, in one transaction; return the number of rows."""
    with closing(open_store(url, create=True)) as store, store.begin() as tx:
        _require_empty(store, tx)
        tx.execute(sa.delete(LeaseRow))
        if is_sqlite(tx):
            tx.execute(sa.text("PRAGMA defer_foreign_keys = ON"))  # rows of one table may point to later ones
        try:
            with gzip.open(path, "rt") as file:
                rows = _load_lines(tx, path, file)
        except (OSError, EOFError, UnicodeDecodeError, json.JSONDecodeError, zlib.error) as error:
            raise PerfciError(f"{path} is no whole dump: {error}.") from None
        _set_sequences(tx)
    return rows


def _require_empty(store: Store, tx: Session) -> None:
    """Raise if any table has rows, but for the leases that a running worker renews."""
    filled = [
        table.name
        for table in _list_tables()
        if table.name != LeaseRow.__tablename__
        and tx.execute(sa.select(1).select_from(table).limit(1)).first()
    ]
    if filled:
        raise PerfciError(
            f"The database {store.display_name} holds rows already ({', '.join(filled[:3])}): "
            "restore into an empty one."
        )


def _load_lines(tx: Session, path: Path, lines: Iterator[str]) -> int:
    head = json.loads(next(lines, "null"))
    if not isinstance(head, dict) or head.get("kind") != DUMP_FORMAT:
        raise PerfciError(f"{path} is no dump of perfci: expected a file that `perfci db backup` wrote.")
    if head["schema"] != SCHEMA:
        raise PerfciError(
            f"{path} has the schema {head['schema']}, this perfci reads {SCHEMA}: "
            "restore it with the version that wrote it, then run `perfci db upgrade`."
        )
    tables = {table.name: table for table in _list_tables()}
    rows = 0
    values = (json.loads(line) for line in lines)
    about = next(values, None)
    while isinstance(about, dict) and "table" in about:
        loaded, about = _load_table(tx, tables[about["table"]], about["columns"], values)
        rows += loaded
    if not isinstance(about, dict) or about.get("rows") != rows:
        raise PerfciError(f"{path} is cut off: {rows} rows were read and its end is missing.")
    return rows


def _load_table(
    tx: Session, table: sa.Table, columns: Sequence[str], values: Iterator[Any]
) -> tuple[int, Any]:
    """Insert the rows up to the next table's line, in chunks; return their number and that line.

    Rows of a table that refers to itself go into one statement: PostgreSQL checks references at its end.
    """
    takes = [bool if isinstance(table.c[name].type, sa.Boolean) else _decode_value for name in columns]
    together = any(key.column.table is table for key in table.foreign_keys)
    rows: list[tuple[Any, ...]] = []
    loaded = 0
    for value in values:
        if not isinstance(value, list):
            bulk_insert(tx, table, columns, rows)
            return loaded + len(rows), value
        rows.append(tuple(take(content) for take, content in zip(takes, value, strict=True)))
        if len(rows) == ROWS_PER_CHUNK and not together:
            bulk_insert(tx, table, columns, rows)
            loaded, rows = loaded + ROWS_PER_CHUNK, []
    return loaded, None


def _set_sequences(tx: Session) -> None:
    """Set the id sequences of PostgreSQL past the loaded rows."""
    if is_sqlite(tx):
        return
    for table in _list_tables():
        if "id" in table.c:
            last = f"(SELECT coalesce(max(id), 0) + 1 FROM {table.name})"
            tx.execute(sa.text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), {last}, false)"))


def _list_tables() -> list[sa.Table]:
    """List all tables, referenced ones before those that refer to them."""
    from perfci.store.migrate_schema import TABLE_MODULES  # which loads Alembic

    return list(TABLE_MODULES[0].TableBase.metadata.sorted_tables)


def _read_rows(tx: Session, table: sa.Table) -> Iterator[Sequence[Any]]:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    (key,) = table.primary_key
    query = sa.text(f'SELECT {names} FROM {table.name} ORDER BY "{key.name}"')
    yield from tx.execute(query, execution_options={"yield_per": ROWS_PER_CHUNK})


def _encode_line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) + "\n"


def _encode_value(value: Any) -> Any:
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes | memoryview) else value


def _decode_value(value: Any) -> Any:
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value
