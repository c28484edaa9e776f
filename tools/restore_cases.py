"""Restore a backup over everything that an accident leaves behind: it is equal to the backup, or refused with
nothing touched.

    python -m tools.restore_cases

On SQLite a server that took more runs after the backup is killed or goes on running, its database is moved
away with all, some or none of its side files, and a copy and a dump are restored in its place. On PostgreSQL
a dump is restored into a database with or without tables and rows, after a restore that was killed, while a
server uses it. Where a server runs, uploads go on: one that is acknowledged is in the restored database, and
within seconds all are acknowledged again.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import sqlalchemy as sa

from perfci.store import backup, check_integrity, open_store
from perfci.store.projects import create_project
from perfci.store.tables.base import TableBase
from tests.support.databases import bare_database
from tools.disturb_server import upload_run
from tools.kill_server import Server

BACKED_UP_RUNS, LATER_RUNS = 6, 4
RECOVERED_WITHIN_S = 5.0
SIDE_FILES = ("-wal", "-shm", "-journal")

LEFT_OVERS = {
    "nothing": (),
    "-wal": ("-wal",),
    "-shm": ("-shm",),
    "-journal": ("-journal",),
    "-wal and -shm": ("-wal", "-shm"),
    "the database": ("", "-wal", "-shm"),
}
"""What stays where the database was, by the name of the case."""

SERVER_STATES = (
    "no tables",
    "no rows",
    "rows",
    "tables of another program",
    "an older schema",
    "a killed restore",
)
"""What a database of PostgreSQL holds when the restore begins."""

Content = dict[str, list[str]]


@dataclass
class Case:
    """One restore: what came of it, and every promise that was broken."""

    name: str
    outcome: str = ""
    broken: list[str] = field(default_factory=list)

    def expect(self, holds: bool, sentence: str) -> None:
        if not holds:
            self.broken.append(sentence)


def read_content(url: str) -> Content:
    """All rows of a database, by table."""
    with closing(open_store(url, create=False)) as store, store.read() as tx:
        return {
            table.name: [
                repr(tuple(row)) for row in tx.execute(sa.select(table).order_by(*table.primary_key))
            ]
            for table in TableBase.metadata.sorted_tables
        }


def run_restore(url: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perfci.cli", "--db", url, "db", "restore", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


@contextlib.contextmanager
def served(url: str, folder: Path) -> Iterator[Server]:
    server = Server(url, folder)
    server.start()
    try:
        yield server
    finally:
        server.end()


def restore_sqlite(folder: Path, left_over: str, backup_name: str, *, running: bool) -> Case:
    """Restore in place of a SQLite database that was moved away as far as the case says."""
    case = Case(f"SQLite | {left_over} | {'running' if running else 'killed'} | {backup_name}")
    path, copy = folder / "perfci.db", folder / backup_name
    url = f"sqlite:///{path}"
    open_store(url, create=True).close()
    with served(url, folder) as server:
        for number in range(BACKED_UP_RUNS):
            upload_run(server.address, number)
        backup(url, copy)
        expected = read_backup(copy, folder)
        for number in range(BACKED_UP_RUNS, BACKED_UP_RUNS + LATER_RUNS):
            upload_run(server.address, number)
        if not running:
            os.killpg(server.pid, signal.SIGKILL)
        away = folder / "away"
        away.mkdir()
        for suffix in ("", *SIDE_FILES):
            file = Path(f"{path}{suffix}")
            if suffix in LEFT_OVERS[left_over]:
                file.touch()
            elif file.exists():
                file.rename(away / file.name)
        before = read_files(path)
        process = run_restore(url, copy)
        case.outcome = "restored" if process.returncode == 0 else "refused"
        should_restore = not LEFT_OVERS[left_over]
        case.expect(
            (process.returncode == 0) == should_restore, f"exit {process.returncode}: {process.stderr}"
        )
        if process.returncode == 0:
            check_restored(case, url, expected, server if running else None)
        else:
            case.expect(process.stderr.startswith("perfci: "), f"no sentence: {process.stderr}")
            # Looking into a database that is there takes its log in, as any opening does.
            is_closed = not running and not path.exists()
            case.expect(not is_closed or read_files(path) == before, "the refused restore touched files")
    if left_over == "the database":
        case.expect(
            len(read_content(url)["runs"]) == BACKED_UP_RUNS + LATER_RUNS, "acknowledged runs are lost"
        )
    return case


def restore_postgresql(folder: Path, copy: Path, state: str, *, running: bool) -> Case:
    """Restore a dump into a database of PostgreSQL in one of ``SERVER_STATES``."""
    case = Case(f"PostgreSQL | {state} | {'running' if running else 'none'} | {copy.name}")
    expected = read_backup(copy, folder)
    with bare_database("postgresql", folder) as url, contextlib.ExitStack() as ends:
        server = None
        if running or state != "no tables":
            open_store(url, create=True).close()
        if running:
            server = ends.enter_context(served(url, folder))
        prepare_postgresql(url, state, copy)
        process = run_restore(url, copy)
        case.outcome = "restored" if process.returncode == 0 else "refused"
        should_restore = state in ("no tables", "no rows", "a killed restore")
        case.expect(
            (process.returncode == 0) == should_restore, f"exit {process.returncode}: {process.stderr}"
        )
        if process.returncode == 0:
            check_restored(case, url, expected, server)
        else:
            case.expect(process.stderr.startswith("perfci: "), f"no sentence: {process.stderr}")
    return case


def prepare_postgresql(url: str, state: str, copy: Path) -> None:
    statements = {
        "no tables": ["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"],
        "tables of another program": [
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public",
            "CREATE TABLE t (a int)",
        ],
        "an older schema": ["UPDATE alembic_version SET version_num = '0001'"],
    }
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements.get(state, []):
            connection.exec_driver_sql(statement)
    engine.dispose()
    if state == "rows":
        with closing(open_store(url, create=False)) as store, store.begin() as tx:
            create_project(tx, "other/project", "private", datetime.now(UTC))
    if state == "a killed restore":
        command = [sys.executable, "-m", "perfci.cli", "--db", url, "db", "restore", str(copy)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for_restore(url, process)
        process.kill()
        process.wait()


def wait_for_restore(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a restore has a transaction of its own, or ended."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()"
    )
    with engine.connect() as connection:
        while process.poll() is None and connection.exec_driver_sql(query).scalar() == 0:
            time.sleep(0.001)
    engine.dispose()


def check_restored(case: Case, url: str, expected: Content, server: Server | None) -> None:
    """The restored rows, and those that a running server puts beside them."""
    restored = read_content(url)
    lacking = {
        table: len(rows)
        for table, rows in expected.items()
        if not set(rows) <= set(restored[table]) and table not in CHANGED_BY_SERVERS
    }
    case.expect(not lacking, f"tables differ from the backup: {lacking}")
    if server is None:
        case.expect(restored == expected, "rows were added or changed")
    else:
        check_uploads(case, url, server)
    case.expect(not check_integrity(url), "; ".join(check_integrity(url)))


CHANGED_BY_SERVERS = ("projects", "outbox", "leases", "series", "results", "commits")
"""Tables of which a running judge or the next upload changes rows."""


def check_uploads(case: Case, url: str, server: Server) -> None:
    """Upload until it is acknowledged again, and look where it went."""
    began, acknowledged = time.monotonic(), 0
    for number in itertools.count(1000):
        answer = upload_run(server.address, number)
        acknowledged += answer.status_code == 201
        case.expect(answer.status_code in (201, 503), f"an upload was answered {answer.status_code}")
        if acknowledged == 3 or time.monotonic() - began > 60:
            break
        time.sleep(0.05)
    recovery_s = time.monotonic() - began
    case.expect(recovery_s < RECOVERED_WITHIN_S, f"uploads were refused for {recovery_s:.1f} s")
    case.expect(httpx.get(f"{server.address}/readyz", timeout=30).is_success, "the server is not ready")
    stored = len(read_content(url)["runs"])
    case.expect(
        stored == BACKED_UP_RUNS + acknowledged, f"{stored} runs, {acknowledged} acknowledged after it"
    )


def read_backup(copy: Path, folder: Path) -> Content:
    """What a backup holds, by restoring it where nothing is."""
    fresh = folder / "fresh.db"
    if not fresh.exists():
        process = run_restore(f"sqlite:///{fresh}", copy)
        assert process.returncode == 0, process.stderr
    return read_content(f"sqlite:///{fresh}")


def read_files(path: Path) -> dict[str, bytes]:
    """The database and what lies beside it under its name."""
    return {file.name: file.read_bytes() for file in path.parent.glob(f"{path.name}*")}


def restore_all(database: str) -> Iterator[Case]:
    """Do every restore of a kind of database."""
    with tempfile.TemporaryDirectory(prefix="perfci-restore-") as name:
        root = Path(name)
        if database in ("sqlite", "both"):
            kinds = itertools.product(LEFT_OVERS, (False, True), ("copy.db", "all.gz"))
            for number, (left_over, running, backup_name) in enumerate(kinds):
                folder = root / f"sqlite {number}"
                folder.mkdir()
                yield restore_sqlite(folder, left_over, backup_name, running=running)
        if database in ("postgresql", "both"):
            copy = write_backup(root)
            for number, (state, running) in enumerate(itertools.product(SERVER_STATES, (False, True))):
                folder = root / f"postgresql {number}"
                folder.mkdir()
                yield restore_postgresql(folder, copy, state, running=running)


def write_backup(folder: Path) -> Path:
    """A dump with as many runs as that of each case on SQLite."""
    url, copy = f"sqlite:///{folder}/source.db", folder / "all.gz"
    open_store(url, create=True).close()
    with served(url, folder) as server:
        for number in range(BACKED_UP_RUNS):
            upload_run(server.address, number)
        backup(url, copy)
    return copy


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    options = parser.parse_args()
    print("| database | left behind | server | backup | outcome |\n|---|---|---|---|---|")
    broken = cases = 0
    for case in restore_all(options.database):
        cases += 1
        broken += bool(case.broken)
        print(f"| {case.name} | {'; '.join([case.outcome, *case.broken])} |", flush=True)
    print(f"\n{cases} restores, {broken} of them broke a promise")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
