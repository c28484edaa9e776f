"""Every migration goes up and down on a database with rows in it, and loses none that both schemas can hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from perfci.store import check, engine, open_store, schema
from perfci.store.tables.access import AuditRow
from perfci.store.tables.github import RepositoryRow, RunEventRow, RunTokenRow, UsedTokenRow
from perfci.store.tables.incidents import ExpectedChangeRow, IncidentRow
from perfci.store.tables.jobs import OutboxRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.writes import ingest, verdict_writes
from tests.support.builders import (
    NOON,
    PROJECT,
    a_change_point,
    a_process,
    a_result,
    a_run,
    a_series,
    a_verdict,
)
from tests.support.databases import fresh_database


def config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    return config


REVISIONS = [one.revision for one in ScriptDirectory.from_config(config()).walk_revisions()][::-1]


@pytest.fixture
def connection(kind: str, tmp_path: Path) -> Iterator[sa.Connection]:
    """A database with rows of every age, which the next test does not get."""
    with fresh_database(kind, tmp_path) as url:
        fill(url)
        made = engine.make_engine(engine.parse_database_url(url))
        with made.execution_options(perfci_begin="IMMEDIATE").connect() as connection:
            yield connection
        made.dispose()


def fill(url: str) -> None:
    store = open_store(url, create=False)
    with store.begin() as tx:
        ingest.ingest_run(tx, a_run(a_result(a_series(), a_process(1.0, 2.0))), "key", "body")
        verdict_writes.add_verdicts(tx, PROJECT, "session-1", [a_verdict()], NOON)
        verdict_writes.replace_change_points(tx, PROJECT, a_series(), [a_change_point()])
        project_id = tx.scalar(sa.select(ProjectRow.id))
        tx.add(OutboxRow(project_id=project_id, kind="judge", subject="key", created_at=NOON))
        tx.add(
            AuditRow(at=NOON, actor="local", action="token.create", subject="one", detail={}, request_id="")
        )
        told = {
            "derived_id": "",
            "kind": "data",
            "state": "new",
            "last_good": "",
            "commit": "",
            "headline": "",
        }
        seen = {"first_seen": NOON, "changed_at": NOON, "series_count": 1}
        tx.add(IncidentRow(project_id=project_id, number=1, **told, **seen))
        named = {"slug": PROJECT, "workflow": ".github/workflows/perf.yml", "refs": ["refs/heads/main"]}
        tx.add(RepositoryRow(project_id=project_id, repository_id=2**40, owner_id=7, bound_at=NOON, **named))
        tx.add(UsedTokenRow(hash="0" * 64, expires_at=NOON))
        job = {"run_id": "1", "attempt": 1, "sha": "a" * 40, "event": "push", "baseline": True}
        tx.add(RunTokenRow(uid="0" * 12, secret_hash="1" * 64, project_id=project_id, expires_at=NOON, **job))
        told = {
            "delivery": "d",
            "installation": 2**40,
            "repository": PROJECT,
            "number": 2**40,
            "action": "completed",
        }
        waits = {"received_at": NOON, "state": "waiting", "not_before": NOON}
        tx.add(RunEventRow(project_id=project_id, **told, **waits))
        meant = {
            "match": "peak_bytes",
            "change": 0.03,
            "reason": "the cache",
            "source": "#12",
            "recorded_by": "github",
        }
        tx.add(
            ExpectedChangeRow(project_id=project_id, sha="a" * 40, merged_at=NOON, recorded_at=NOON, **meant)
        )
    store.close()


@pytest.mark.parametrize("revision", REVISIONS)
def test_goes_down_to_a_migration_and_up_again_with_its_rows(
    connection: sa.Connection, revision: str
) -> None:
    before = rows(connection)

    move(connection, command.downgrade, revision)
    left = rows(connection)
    move(connection, command.upgrade, "head")

    for name in left:
        kept = [column for column in left[name][0] if column in before[name][0]] if left[name] else []
        assert [[row[column] for column in kept] for row in rows(connection)[name]] == [
            [row[column] for column in kept] for row in before[name]
        ]
    assert check(connection.engine.url.render_as_string(hide_password=False)) == []


def move(connection: sa.Connection, how: object, revision: str) -> None:
    assert callable(how)
    moving = config()
    moving.attributes["connection"] = connection
    with connection.begin():
        how(moving, revision)


def rows(connection: sa.Connection) -> dict[str, list[dict[str, object]]]:
    with connection.begin():
        names = [name for name in sa.inspect(connection).get_table_names() if name != "alembic_version"]
        return {
            name: [dict(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name}").mappings()]
            for name in sorted(names)
        }


def test_counts_the_processes_of_the_runs_it_finds(connection: sa.Connection) -> None:
    move(connection, command.downgrade, "0010")

    move(connection, command.upgrade, "0011")

    assert [run["processes"] for run in rows(connection)["runs"]] == [1]
