"""Every migration goes up and down on a database with rows in it, and loses none of them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.orm import Session

from perfci.model import Clock, Stage
from perfci.service.notify.destination_encryption import decrypt_destination
from perfci.store import (
    check_integrity,
    migrate_schema,
    open_database,
    open_store,
    verdict_decisions,
    verdicts_and_change_points,
)
from perfci.store.jobs.notification_destinations import Destination, load_destinations, save_destination
from perfci.store.projects import create_project
from perfci.store.tables.access import AuditRow, SecretRow
from perfci.store.tables.github import RepositoryRow, RunEventRow, RunTokenRow, UsedTokenRow
from perfci.store.tables.incidents import (
    EvaluationRow,
    ExpectedChangeRow,
    ImpactRow,
    IncidentEventRow,
    IncidentMemberRow,
    IncidentRow,
    MutedBenchmarkRow,
    ReportingScheduleRow,
)
from perfci.store.tables.measurements import MachineRow, ProjectRow, RunRow, SeriesRow, UnresolvedResultRow
from perfci.store.tables.notifications import DeliveryRow, DestinationRow
from perfci.store.tables.work_queue_and_leases import LeaseRow, OutboxRow
from perfci.store.verdict_decisions import DecisionRecord
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
from tests.support.databases import KINDS, fresh_database
from tests.support.stored_runs import ingest_run, replace_change_points


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
RENAMED = importlib.import_module("perfci.store.migrations.versions.0016_standard_names")


def fill(url: str) -> None:
    """Add a row to every table and, where a word is stored, one with the word that a migration renames."""
    store = open_store(url, create=False)
    measured = a_result(
        a_series(),
        a_process(1.0, 2.0),
        a_process(3.0, index=1, clock=Clock.INFORMATIONAL),
    )
    with store.begin() as tx:
        ingest_run(tx, a_run(measured), "key", "body")
        screened, confirmed = a_verdict(stage=Stage.SCREENING), a_verdict()
        verdict_ids = verdicts_and_change_points.add_verdicts(
            tx, PROJECT, "session-1", [screened, confirmed], NOON
        )
        record = DecisionRecord("pairs", {"bar": 0.05, "subject": "time"}, 0, ())
        verdict_decisions.add_verdict_decisions(tx, {verdict_ids[0]: record})
        replace_change_points(tx, PROJECT, a_series(), [a_change_point()])
        project_id = tx.scalar(sa.select(ProjectRow.id))
        series_id, run_id = tx.scalar(sa.select(SeriesRow.id)), tx.scalar(sa.select(RunRow.id))
        machine_id = tx.scalar(sa.select(MachineRow.id))
        tx.add(OutboxRow(project_id=project_id, kind="judge", subject="key", created_at=NOON))
        tx.add(OutboxRow(project_id=project_id, kind="evaluate", subject="expected_changes", created_at=NOON))
        tx.add(LeaseRow(name="judge", holder="one", token=3, beat=1))
        tx.add(
            AuditRow(at=NOON, actor="local", action="token.create", subject="one", detail={}, request_id="")
        )
        incident_id = _add_incident(tx, project_id, series_id)
        _add_access(tx, project_id, incident_id)
        tx.add(
            ExpectedChangeRow(
                project_id=project_id,
                sha="a" * 40,
                match="peak_bytes",
                change=0.03,
                reason="the cache",
                source="#12",
                merged_at=NOON,
                recorded_by="github",
                recorded_at=NOON,
            )
        )
        muted = {"benchmark": "training.Step", "metric": "time", "rate": 0.5, "reason": "noisy"}
        tx.add(
            MutedBenchmarkRow(
                project_id=project_id, since=NOON, expires_at=NOON, unmuted_at=NOON, actor="ada", **muted
            )
        )
        unresolved = {
            "format": "asv",
            "metric": "size",
            "document": {"found": "MB"},
            "reason": "unknown unit",
        }
        tx.add(UnresolvedResultRow(project_id=project_id, run_id=run_id, created_at=NOON, **unresolved))
        scheduled = {
            "suite": "benchmarks",
            "branch": "main",
            "every_s": 86400.0,
            "set_by": "ada",
        }
        tx.add(
            ReportingScheduleRow(
                project_id=project_id,
                machine_id=machine_id,
                series=3,
                muted=False,
                last_run_at=NOON,
                **scheduled,
            )
        )
        tx.add(
            EvaluationRow(
                project_id=project_id, evaluated_at=NOON, pages_per_week=5, retests=[{"base": "a"}], creeps=[]
            )
        )
    store.close()


def _add_incident(tx: Session, project_id: int, series_id: int) -> int:
    detail = {new: old for old, new in RENAMED.KEYS["incidents", "detail"].items()} | {"week": 1}
    empty = dict.fromkeys(("derived_id", "last_good", "commit", "headline"), "")
    words = {"kind": "data", "state": "new", "severity": 0.5, "disposition": "page", "ongoing": True}
    seen = {"first_seen": NOON, "changed_at": NOON, "series_count": 1}
    row = IncidentRow(project_id=project_id, number=1, detail=detail, **empty, **words, **seen)
    tx.add(row)
    tx.flush()
    moved = {"commit": "b" * 40, "relative_change": 0.1, "before": 1.0, "after": 1.1}
    tx.add(IncidentMemberRow(incident_id=row.id, series_id=series_id, last_good="", added_by="ada", **moved))
    tx.add(
        ImpactRow(
            project_id=project_id,
            series_id=series_id,
            incident_id=row.id,
            recorded_at=NOON,
            accepted=True,
            **moved,
        )
    )
    for action in ("expected", "move_boundary", "note"):
        tx.add(
            IncidentEventRow(
                incident_id=row.id, at=NOON, actor="ada", action=action, before="", after="", text=""
            )
        )
    return row.id


def _add_access(tx: Session, project_id: int, incident_id: int) -> None:
    named = {"slug": PROJECT, "workflow": ".github/workflows/perf.yml", "refs": ["refs/heads/main"]}
    tx.add(RepositoryRow(project_id=project_id, repository_id=2**40, owner_id=7, bound_at=NOON, **named))
    tx.add(UsedTokenRow(hash="0" * 64, expires_at=NOON))
    job = {"run_id": "1", "attempt": 1, "sha": "a" * 40, "event": "push", "baseline": True}
    tx.add(RunTokenRow(uid="0" * 12, secret_hash="1" * 64, project_id=project_id, expires_at=NOON, **job))
    event = {"delivery": "d", "installation": 2**40, "repository": PROJECT, "number": 2**40}
    waiting = {"action": "completed", "received_at": NOON, "state": "waiting", "not_before": NOON}
    tx.add(RunEventRow(project_id=project_id, **event, **waiting))
    tx.add(SecretRow(name="seal", value=b"key", created_at=NOON))
    destination = DestinationRow(project_id=project_id, name="chat", kind="webhook", address="https://x")
    tx.add(destination)
    tx.flush()
    tx.add(
        DeliveryRow(
            uid="1" * 32,
            destination_id=destination.id,
            incident_id=incident_id,
            state_number=1,
            not_before=NOON,
            state="waiting",
            body={"number": 1, "candidate_commits": ["b: Ä"]},
        )
    )


@pytest.mark.parametrize("revision", REVISIONS)
def test_goes_down_to_a_migration_and_up_again_with_its_rows(
    connection: sa.Connection, revision: str
) -> None:
    before = rows(connection)

    move(connection, command.downgrade, revision)
    left = rows(connection)
    move(connection, command.upgrade, "head")

    after = rows(connection)
    for name, old_rows in left.items():
        new_name, columns = new_names(name)
        assert len(after[new_name]) == len(old_rows)
        shared = [
            columns.get(column, column)
            for column in (old_rows[0] if old_rows else ())
            if (name, column) not in ENCRYPTED
        ]
        assert select(after[new_name], shared) == select(before[new_name], shared)
    assert check_integrity(connection.engine.url.render_as_string(hide_password=False)) == []


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


def rows(connection: sa.Connection) -> dict[str, list[dict[str, object]]]:
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
