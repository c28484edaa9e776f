"""Check that a database can be written: a small write has to reach the disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import sqlalchemy as sa

from perfci.model import PerfciError
from perfci.store.open_database import find_sqlite_file
from perfci.store.transactions import Store, translate_errors

REWRITE_SCHEMA_VERSION = "UPDATE alembic_version SET version_num = version_num"
"""A write that changes nothing, to the one table with a single row."""


def require_writable_database(store: Store, wait_s: float) -> None:
    """Raise unless a small write reaches the disk; it waits ``wait_s`` seconds for others that write.

    What it writes is what was there. Whether there is room, and whether a lock can be had, would say less.
    """
    path = find_sqlite_file(store.url)
    if path is None:
        _require_writable_server(store, wait_s)
        return
    with (
        translate_errors(store.display_name),
        closing(sqlite3.connect(path, timeout=wait_s, isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(REWRITE_SCHEMA_VERSION)
        connection.execute("COMMIT")


def _require_writable_server(store: Store, wait_s: float) -> None:
    with store.read() as tx:
        if tx.scalar(sa.text("SELECT pg_is_in_recovery()")):
            raise PerfciError(f"The database {store.display_name} is a copy that only follows another one.")
    with store.begin() as tx:
        tx.execute(sa.text(f"SET LOCAL lock_timeout = {wait_s * 1000:.0f}"))
        tx.execute(sa.text(REWRITE_SCHEMA_VERSION))
