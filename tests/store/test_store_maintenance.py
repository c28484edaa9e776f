"""A database can be checked for what must hold, and copied while in use."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perfci.model import PerfciError, Status
from perfci.store import Store, backup, check_integrity, open_database, open_store, verdicts_and_change_points
from perfci.store.queries import runs_and_sessions
from perfci.store.writes import measured_sessions
from tests.support.builders import (
    NOON,
    PROJECT,
    a_failed_process,
    a_process,
    a_result,
    a_run,
    a_series,
    a_summary,
    a_verdict,
)
from tests.support.stored_runs import ingest_run


def filled(store: Store) -> None:
    with store.begin() as tx:
        results = [
            a_result(a_series("suite.a"), a_process(1.0), a_failed_process(index=1)),
            a_result(a_series("suite.b"), a_failed_process(), status=Status.FAILED),
            a_result(a_series("suite.c"), a_process(2.0), summary=a_summary(2.0)),
        ]
        ingest_run(tx, a_run(*results), "key", "body")
        verdicts_and_change_points.add_verdicts(tx, PROJECT, "session-1", [a_verdict(), a_verdict()], NOON)


def test_reports_no_violation_in_rows_the_program_wrote(store: Store) -> None:
    filled(store)

    assert check_integrity(store.url) == []


UNGUARDED = "DROP TRIGGER verdicts_are_superseded_once"


@pytest.mark.parametrize(
    ("harm", "finds"),
    [
        (
            "UPDATE processes SET samples = x'00' WHERE id = 1",
            "Process 1 holds samples that are no finite numbers.",
        ),
        (
            "UPDATE processes SET samples = x'000000000000f07f' WHERE id = 1",
            "Process 1 holds samples that are no",
        ),
        ("UPDATE processes SET samples = x'' WHERE id = 1", "Process 1 ended ok but has no samples."),
        (
            "DELETE FROM processes WHERE id = 1",
            "Result 1 is ok but has neither a process that ended ok nor a summary.",
        ),
        (
            "UPDATE results SET status = 'failed' WHERE id = 1",
            "Result 1 is not ok although one of its processes",
        ),
        (
            "UPDATE series SET unit = 'ms' WHERE id = 1",
            "Series 1 (suite.a · time) does not match its identity.",
        ),
        (
            "UPDATE benchmarks SET version = '9' WHERE id = 1",
            "Series 1 (suite.a · time) does not match its identity.",
        ),
        (
            f"{UNGUARDED}; UPDATE verdicts SET superseded_by = NULL",
            "Series 4 has several current verdicts between 0000",
        ),
        (f"{UNGUARDED}; UPDATE verdicts SET superseded_by = 1", "Verdict 1 is superseded by an older one."),
        (
            "DROP TRIGGER verdicts_are_kept",
            "The trigger verdicts_are_kept is gone, so verdicts that were given could",
        ),
        (
            "INSERT INTO projects (id, slug) VALUES (9, 'acme/other'); UPDATE sessions SET project_id = 9",
            "Run 1 mixes a session, a commit or a series of different projects.",
        ),
    ],
)
def test_reports_violated_invariants(store: Store, harm: str, finds: str) -> None:
    filled(store)
    do(harm, store.url)

    problems = check_integrity(store.url)

    assert any(problem.startswith(finds) for problem in problems), problems


def do(harm: str, url: str) -> None:
    """Change a database behind the program's back, in the words of its kind."""
    if url.startswith("postgresql"):
        harm = re.sub(r"x'(\w*)'", r"'\\x\1'", harm)
        harm = re.sub(r"DROP TRIGGER (\w+)", r"DROP TRIGGER \1 ON verdicts", harm)
    connection = open_database.make_engine(open_database.parse_database_url(url)).connect()
    with connection, connection.begin():
        for statement in harm.split(";"):
            connection.exec_driver_sql(statement)
    connection.engine.dispose()


def test_reports_a_dangling_reference(sqlite_store: Store, database: Path) -> None:
    filled(sqlite_store)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DELETE FROM commits")

    assert "Row 1 of runs points to a row of commits that does not exist." in check_integrity(
        sqlite_store.url
    )


def test_a_copy_is_consistent_while_others_write(sqlite_store: Store, tmp_path: Path) -> None:
    filled(sqlite_store)
    copy = tmp_path / "copy.db"

    with sqlite_store.begin() as tx:
        measured_sessions.start_session(tx, PROJECT, "not committed yet", "history", "", 1, 1, NOON)
        backup(sqlite_store.url, copy)

    with closing(open_store(f"sqlite:///{copy}", create=False)) as copied, copied.read() as tx:
        assert [session.uid for session in runs_and_sessions.load_sessions(tx, PROJECT)] == ["session-1"]
        assert check_integrity(copied.url) == []


def test_a_copy_never_replaces_a_file(sqlite_store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "precious.db"
    precious.write_text("mine")

    with pytest.raises(PerfciError, match="exists already"):
        backup(sqlite_store.url, precious)

    assert precious.read_text() == "mine"


def test_reports_a_missing_target_folder_in_one_sentence(sqlite_store: Store, tmp_path: Path) -> None:
    with pytest.raises(PerfciError, match="Cannot write the copy"):
        backup(sqlite_store.url, tmp_path / "no folder" / "copy.db")
