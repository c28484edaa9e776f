"""Back up, restore and upgrade a database."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from perfci.model import PerfciError
from perfci.store.maintenance.dump_and_load import load_dump, write_dump
from perfci.store.open_database import (
    SQLITE_HEADER,
    check_sqlite_file,
    format_address,
    is_older_schema,
    make_database_folder,
    make_engine,
    open_store,
    parse_database_url,
    read_schema_version,
    require_no_sqlite_side_files,
    require_schema_not_newer,
    sqlite_file_of_address,
)
from perfci.store.transactions import translate_errors


def upgrade(url: str) -> None:
    """Migrate an older database to the current schema."""
    from perfci.store.migrate_schema import migrate  # Alembic takes long to import: only where it migrates

    address = parse_database_url(url)
    shown = format_address(address)
    if check_sqlite_file(address, create=False):
        raise PerfciError(f"The database {shown} is read-only: make it writable to upgrade it.")
    engine = make_engine(address)
    try:
        with translate_errors(shown):
            require_schema_not_newer(shown, read_schema_version(engine, shown))
            migrate(engine)
    finally:
        engine.dispose()


def upgrade_if_older(url: str) -> None:
    """Migrate a database if it is there and older; only for stores that perfci itself manages."""
    address = parse_database_url(url)
    path = sqlite_file_of_address(address)
    if path is not None and not path.exists():
        return
    engine = make_engine(address)
    try:
        with translate_errors(format_address(address)):
            current_schema = read_schema_version(engine, format_address(address))
    finally:
        engine.dispose()
    if is_older_schema(current_schema):
        upgrade(url)


def backup(url: str, path: Path) -> None:
    """Write a consistent copy while others read and write; an existing file is never replaced.

    A SQLite database is copied to a database file; PostgreSQL, or a path that ends in ``.gz``, gives a
    dump that either kind of database can load.
    """
    address = parse_database_url(url)
    source = sqlite_file_of_address(address)
    if path.exists():
        raise PerfciError(f"{path} exists already: name a file that does not.")
    if not os.access(path.parent, os.W_OK):
        raise PerfciError(f"Cannot write the copy {path}: its folder does not exist or is read-only.")
    with (
        contextlib.closing(open_store(url, create=False)) as store,
        translate_errors(format_address(address)),
    ):
        if source is None or path.suffix == ".gz":
            write_dump(store, path)
        else:
            _copy_sqlite(source, path)


def restore(url: str, path: Path) -> None:
    """Load a backup into an absent or empty database."""
    if not path.exists():
        raise PerfciError(f"There is no file {path} to restore from.")
    with path.open("rb") as file:
        start = file.read(len(SQLITE_HEADER))
    if start != SQLITE_HEADER:
        load_dump(url, path)
        return
    target = sqlite_file_of_address(parse_database_url(url))
    if target is None:
        raise PerfciError(
            f"{path} is a SQLite file: for a server, write a dump first, "
            f"`perfci --db {path} db backup {path.with_suffix('')}.gz`, and restore that."
        )
    with contextlib.closing(open_store(f"sqlite:///{path}", create=False)):
        pass  # a copy of another schema is refused before anything is written
    if target.exists():
        raise PerfciError(
            f"{target} exists already: stop what uses it and move it away with its -wal and -shm files, or "
            "name another database with --db."
        )
    require_no_sqlite_side_files(target)
    make_database_folder(target.parent)
    with translate_errors(str(path)):
        _copy_sqlite(path, target, at_rest=not path.with_name(path.name + "-wal").exists())


def _copy_sqlite(source: Path, path: Path, *, at_rest: bool = False) -> None:
    """Copy a database while others write to it; the copy gets its name once it is found intact.

    Of one ``at_rest``, which nobody has open, no -wal and -shm files are made beside it.
    """
    mode = "mode=ro&immutable=1" if at_rest else "mode=ro"
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        copy = Path(folder) / path.name
        copy.touch(mode=0o600)
        with (
            contextlib.closing(sqlite3.connect(f"{source.resolve().as_uri()}?{mode}", uri=True)) as here,
            contextlib.closing(sqlite3.connect(copy)) as there,
        ):
            here.backup(there)
            [(damage,)] = there.execute("PRAGMA integrity_check(1)").fetchall()
        if damage != "ok":
            raise PerfciError(f"{source} is damaged ({damage}): {path} was not written.")
        try:
            os.link(copy, path)  # unlike a rename, it never replaces a file
        except FileExistsError:
            raise PerfciError(f"{path} exists by now: nothing was written.") from None
        except OSError:
            copy.rename(path)  # on a file system without hard links
