"""Every migration goes up and down on a database with rows in it, and loses none of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from every_table import RENAMED, fill

from perfci.model import Interval, TailVerdict, VerdictKind
from perfci.service.notify.destination_encryption import decrypt_destination
from perfci.store import (
    check_integrity,
    migrate_schema,
    open_database,
    open_store,
    verdicts_and_change_points,
)
from perfci.store.jobs.notification_destinations import Destination, load_destinations, save_destination
from perfci.store.projects import create_project
from perfci.store.tables.access import AuditRow, SecretRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.verdicts_and_change_points import (
    add_verdicts,
    load_ids_of_verdicts_stored_before_tails,
    load_verdict_records,
)
from tests.support.builders import (
    NOON,
    PROJECT,
    a_result,
    a_run,
    a_verdict,
)
from tests.support.databases import KINDS, fresh_database
from tests.support.stored_runs import ingest_run


def config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrate_schema.MIGRATIONS))
    return config


REVISIONS = [revision.revision for revision in ScriptDirectory.from_config(config()).walk_revisions()][::-1]


@pytest.fixture
def connection(kind: str, tmp_path: Path) -> Iterator[sa.Connection]:
    """A database with rows of every age, which the next test does not get."""
    with fresh_database(kind, tmp_path) as url:
        fill(url)
        made = open_database.make_engine(open_database.parse_database_url(url))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            yield connection
        made.dispose()


ENCRYPTED = {("destinations", "address"), ("destinations", "secret")}


def test_every_migration_goes_down_and_up_again_with_its_rows(connection: sa.Connection) -> None:
    """One step at a time, and from the first to the newest at once."""
    newest = rows(connection)
    for revision in REVISIONS[-2::-1]:
        before = rows(connection)
        move(connection, command.downgrade, revision)
        left = rows(connection)
        move(connection, command.upgrade, "+1")
        assert_rows_kept(left, before, rows(connection))
        move(connection, command.downgrade, revision)
    move(connection, command.upgrade, "head")

    assert_rows_kept(left, newest, rows(connection))
    assert check_integrity(connection.engine.url.render_as_string(hide_password=False)) == []


@pytest.mark.proof
@pytest.mark.parametrize("revision", REVISIONS)
def test_goes_down_to_a_migration_and_up_to_the_newest_with_its_rows(
    connection: sa.Connection, revision: str
) -> None:
    before = rows(connection)

    move(connection, command.downgrade, revision)
    left = rows(connection)
    move(connection, command.upgrade, "head")

    assert_rows_kept(left, before, rows(connection))
    assert check_integrity(connection.engine.url.render_as_string(hide_password=False)) == []


Rows = dict[str, list[dict[str, object]]]


def assert_rows_kept(left: Rows, before: Rows, after: Rows) -> None:
    """Every row that was left in an older schema is in a newer one, as it was there before."""
    for name, old_rows in left.items():
        newest_name, renamed_columns = new_names(name)
        new_name = name if name in after else newest_name
        assert len(after[new_name]) == len(old_rows)
        columns = [
            new
            for column in (old_rows[0] if old_rows else ())
            if (name, column) not in ENCRYPTED
            for new in {column, renamed_columns.get(column, column)}
        ]
        assert select(after[new_name], columns) == select(before[new_name], columns)


def new_names(table: str) -> tuple[str, dict[str, str]]:
    """The newest name of a table, and of its columns that have had another."""
    renamed_columns = {old: new for name, old, new in RENAMED.COLUMNS if name == table}
    for (old, new), columns in RENAMED.TABLES.items():
        if table == old:
            return new, columns
    return table, renamed_columns


def select(rows: list[dict[str, object]], columns: list[str]) -> list[list[object]]:
    return [[row[column] for column in columns if column in row] for row in rows]


def move(connection: sa.Connection, how: object, revision: str) -> None:
    assert callable(how)
    moving = config()
    moving.attributes["connection"] = connection
    with connection.begin():
        how(moving, revision)


def rows(connection: sa.Connection) -> Rows:
    with connection.begin():
        names = [name for name in sa.inspect(connection).get_table_names() if name != "alembic_version"]
        return {
            name: [
                dict(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name} ORDER BY 1").mappings()
            ]
            for name in sorted(names)
        }


def test_counts_the_processes_of_the_runs_it_finds(connection: sa.Connection) -> None:
    move(connection, command.downgrade, "0010")

    move(connection, command.upgrade, "0011")

    assert [run["processes"] for run in rows(connection)["runs"]] == [2]


def test_downgrades_to_the_former_names(connection: sa.Connection) -> None:
    move(connection, command.downgrade, "0015")

    old = rows(connection)
    [incident], [delivery], [decision] = old["incidents"], old["deliveries"], old["decisions"]
    assert (incident["say"], incident["standing"], incident["cost"]) == ("page", 1, 0.5)
    assert set(json.loads(str(incident["detail"]))) == {*RENAMED.KEYS["incidents", "detail"], "week"}
    assert delivery["body"] == '{"number":1,"suspects":["b: Ä"]}'
    assert decision["rule"] == '{"bar":0.05,"about":"time"}'
    assert {row["kind"] for row in old["outbox"]} == {"judge", "look"}
    assert [row["what"] for row in old["incident_events"]] == ["announced", "nudge", "note"]
    assert [row["stage"] for row in old["verdicts"]] == ["screening", "conviction"]
    assert [row["clock"] for row in old["processes"]] == ["wall", "witness"]


def test_marks_the_sessions_of_pull_requests(kind: str, tmp_path: Path) -> None:
    origins = {
        "of a pull request": {"event": "pull_request", "run_id": "1"},
        "of a branch": {"event": "push", "run_id": "2"},
        "of main": {"event": "push", "run_id": "3"},
        "by hand": {},
    }
    with fresh_database(kind, tmp_path) as url, closing(open_store(url, create=False)) as store:
        with store.begin() as tx:
            for uid, origin in origins.items():
                run = a_run(a_result(), session=uid, origin=tuple(origin.items()))
                ingest_run(tx, run, f"key {uid}", "body", kind="compare")
            project_id = tx.scalar(sa.select(ProjectRow.id))
            for run_id, baseline in (("2", False), ("3", True)):
                detail = {"run_id": run_id, "baseline": baseline}
                entry = {"actor": "a", "subject": "", "request_id": "", "project_id": project_id}
                tx.add(AuditRow(at=NOON, action="job.admit", detail=detail, **entry))
        answers = ["by hand", "of main", "of a pull request", "of a branch"]
        with store.begin() as tx:
            for uid in answers:
                verdicts_and_change_points.add_verdicts(tx, PROJECT, uid, [a_verdict()], NOON)
        made = open_database.make_engine(open_database.parse_database_url(url))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            move(connection, command.downgrade, "0016")
            move(connection, command.upgrade, "head")
        made.dispose()
        with store.read() as tx:
            kinds = {row.uid: row.kind for row in tx.execute(sa.text("SELECT uid, kind FROM sessions"))}
            chain = tx.scalars(sa.text("SELECT superseded_by FROM verdicts ORDER BY id")).all()

    assert kinds == {
        "of a pull request": "pull_request",
        "of a branch": "pull_request",
        "of main": "compare",
        "by hand": "compare",
    }
    assert chain == [2, None, 2, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_key", [True, False])
def test_encrypts_the_destinations_of_older_databases(kind: str, has_key: bool, tmp_path: Path) -> None:
    with fresh_database(kind, tmp_path) as url, closing(open_store(url, create=False)) as store:
        made = open_database.make_engine(open_database.parse_database_url(url))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            move(connection, command.downgrade, "0017")
        with store.begin() as tx:
            project = create_project(tx, PROJECT, "private", NOON)
            save_destination(
                tx, project.id, Destination("hook", "webhook", "https://hooks.example/T0/secret", "s3c")
            )
            save_destination(tx, project.id, Destination("mail", "email", "ada@example.com"))
            if has_key:
                tx.add(SecretRow(name="seal", value=b"a key", created_at=NOON))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            move(connection, command.upgrade, "head")
        made.dispose()
        with store.read() as tx:
            stored = load_destinations(tx, project.id)
            plain = [decrypt_destination(tx, destination, "") for destination in stored]

    assert [(item.address[:7], item.secret[:7]) for item in stored] == [
        ("sealed:", "sealed:"),
        ("sealed:", ""),
    ]
    assert [(item.address, item.secret) for item in plain] == [
        ("https://hooks.example/T0/secret", "s3c"),
        ("ada@example.com", ""),
    ]


def test_corrects_levels_whose_ratio_was_not_the_size_beside_them(kind: str, tmp_path: Path) -> None:
    with fresh_database(kind, tmp_path) as url:
        fill(url)
        made = open_database.make_engine(open_database.parse_database_url(url))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            move(connection, command.downgrade, "0020")
            for table in ("change_points", "incident_members", "impacts"):
                connection.execute(
                    sa.text(f'UPDATE {table} SET "before" = 2.0, "after" = 2.7, relative_change = 0.25')
                )
            connection.commit()

            move(connection, command.upgrade, "head")

            for table in ("change_points", "incident_members", "impacts"):
                columns = sa.text(f'SELECT "before", "after", interval_lo FROM {table}')
                assert set(connection.execute(columns)) == {(2.0, 2.5, None)}
        made.dispose()


def test_verdicts_from_before_tails_have_none_and_those_after_are_guarded(kind: str, tmp_path: Path) -> None:
    tail = TailVerdict(VerdictKind.REGRESSION, 1.5, Interval(1.4, 1.6))
    with fresh_database(kind, tmp_path) as url, closing(open_store(url, create=False)) as store:
        with store.begin() as tx:
            ingest_run(tx, a_run(a_result()), "key", "body")
            add_verdicts(tx, PROJECT, "session-1", [a_verdict()], NOON)
        made = open_database.make_engine(open_database.parse_database_url(url))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            move(connection, command.downgrade, "0021")
            move(connection, command.upgrade, "head")
        made.dispose()
        with store.begin() as tx:
            add_verdicts(tx, PROJECT, "session-1", [a_verdict(tail=tail), a_verdict()], NOON)

        with store.read() as tx:
            records = load_verdict_records(tx, PROJECT, current_only=False)
            before = load_ids_of_verdicts_stored_before_tails(tx, PROJECT)
        for column in ("tail_kind", "tail_ratio", "reason"):
            with pytest.raises(sa.exc.DBAPIError, match="never deleted or edited"), store.begin() as tx:
                tx.execute(sa.text(f"UPDATE verdicts SET {column} = NULL WHERE id = 2"))

    assert [record.verdict.tail for record in records] == [None, tail, None]
    assert before == {records[-1].id}


def test_a_change_from_before_has_the_p_value_of_its_interval(kind: str, tmp_path: Path) -> None:
    with fresh_database(kind, tmp_path) as url:
        fill(url)
        made = open_database.make_engine(open_database.parse_database_url(url))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            move(connection, command.downgrade, "0022")
            values = '"before" = 1.0, "after" = 1.2, interval_lo = 1.1, interval_hi = 1.309090909'
            connection.execute(sa.text(f"UPDATE change_points SET {values}"))
            connection.commit()

            move(connection, command.upgrade, "head")

            ((p_value, noise),) = set(connection.execute(sa.text("SELECT p_value, noise FROM change_points")))
        made.dispose()

    # half the interval is log(1.2 / 1.1), of which 1.96 standard errors are: z = 4.107
    assert p_value == pytest.approx(4.007e-5, rel=0.01)
    assert noise is None


def test_points_from_before_their_noise_do_not_hold(kind: str, tmp_path: Path) -> None:
    with fresh_database(kind, tmp_path) as url:
        fill(url)
        made = open_database.make_engine(open_database.parse_database_url(url))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            move(connection, command.downgrade, "0028")
            connection.execute(sa.text("UPDATE series_points SET stale = false"))
            connection.commit()
            move(connection, command.upgrade, "head")

            assert list(connection.execute(sa.text("SELECT stale, noise FROM series_points"))) == [
                (True, None)
            ]
        made.dispose()
