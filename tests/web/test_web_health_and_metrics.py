"""Health checks, readiness, Prometheus metrics and the request log."""

from __future__ import annotations

import logging
import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient

from perfci.model import PerfciError
from perfci.service.worker.lease import NOTIFICATION_LEASE
from perfci.store import Store, open_store, projects
from perfci.store.jobs import notification_queue, work_queue_and_leases
from perfci.store.jobs.work_queue_and_leases import LeaseRecord, enqueue_work
from perfci.store.open_database import SCHEMA
from perfci.store.tables.incidents import IncidentRow
from perfci.store.tables.notifications import DestinationRow
from perfci.store.writes.group_commit import MAX_WAIT_S, GroupCommitter
from perfci_web import create_app, health_checks
from perfci_web.health_checks import HeartbeatWatch, WriteCheck
from tests.support.builders import NOON, PROJECT, a_process, a_result, a_run
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.stored_runs import ingest_run

LATER = NOON + timedelta(hours=1)


@pytest.fixture
def app(store: Store) -> Iterator[Flask]:
    app = create_app(store, read_only=False, clock=lambda: LATER)
    yield app
    app.extensions["perfci"].group_commit.close()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


def add_waiting_upload(store: Store, attempts: int = 0) -> None:
    with store.begin() as tx:
        ingest_run(tx, a_run(a_result(None, a_process(1.0))), "key", "body")
        project = projects.find_project(tx, PROJECT)
        assert project is not None
        enqueue_work(tx, project.id, "judge", ["key"], NOON)
        (work,) = work_queue_and_leases.load_next_project_work(tx, ("judge",), 10, NOON)
        for _ in range(attempts):
            work_queue_and_leases.postpone_work(tx, work.id, "no such series", NOON)


def test_is_ready_with_an_empty_store(client: FlaskClient) -> None:
    assert client.get("/readyz").get_json() == {"status": "ready", "problems": [], "warnings": []}


def test_warns_of_uploads_that_wait_for_a_worker(client: FlaskClient, store: Store) -> None:
    add_waiting_upload(store)

    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.get_json()["warnings"] == [
        "The oldest upload waits for 3600 s to be judged: does `perfci judge-worker` run?"
    ]


def test_warns_of_uploads_that_failed_to_be_judged(client: FlaskClient, store: Store) -> None:
    add_waiting_upload(store, attempts=work_queue_and_leases.MAX_ATTEMPTS)

    assert client.get("/readyz").get_json()["warnings"] == [
        "1 upload could not be judged: see `perfci db check`."
    ]


def test_warns_of_a_due_notification_that_nobody_sends(client: FlaskClient, store: Store) -> None:
    with store.begin() as tx:
        project = projects.create_project(tx, PROJECT, "private", NOON)
        texts = {"derived_id": "", "kind": "data", "last_good": "", "commit": "", "headline": ""}
        times = {"first_seen": NOON, "changed_at": NOON}
        tx.add(DestinationRow(id=1, project_id=project.id, name="team", kind="slack", address="https://x"))
        tx.add(
            IncidentRow(id=1, project_id=project.id, number=1, state="new", series_count=1, **texts, **times)
        )
        tx.flush()
        notification_queue.add_delivery(tx, 1, 1, 1, LATER - timedelta(minutes=6), {})

    assert client.get("/readyz").get_json()["warnings"] == [
        "The oldest due notification waits for 360 s: does `perfci judge-worker` run?"
    ]
    assert "perfci_deliveries_oldest_due_seconds 360.0" in client.get("/metrics").text.splitlines()


def test_measures_how_long_a_lease_holder_is_silent() -> None:
    now = [0.0]
    watch = HeartbeatWatch(lambda: now[0])
    silences = []
    for now[0], lease in [
        (0.0, None),
        (10.0, LeaseRecord("judge", 1, 7)),
        (70.0, LeaseRecord("judge", 1, 7)),
        (80.0, LeaseRecord("judge", 1, 8)),
        (90.0, LeaseRecord("", 1, 8)),
        (190.0, LeaseRecord("", 1, 8)),
    ]:
        silences.append(watch.measure_silence_s(lease))

    assert silences == [0.0, 0.0, 60.0, 0.0, 0.0, 0.0]


def test_warns_of_a_silent_sender_of_notifications(
    client: FlaskClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "MAX_SILENCE_S", -1.0)
    with store.begin() as tx:
        work_queue_and_leases.claim_free_lease(tx, NOTIFICATION_LEASE, "somebody")

    [warning] = client.get("/readyz").get_json()["warnings"]
    assert warning == "Whatever sends notifications has been silent for 0 s: restart it."


def test_is_not_ready_if_a_write_does_not_reach_the_disk(tmp_path: Path) -> None:
    database = tmp_path / "perfci.db"
    with closing(open_store(f"sqlite:///{database}", create=True)) as store:
        client = create_app(store, read_only=False).test_client()
        with store.begin() as tx:
            projects.create_project(tx, PROJECT, "private", NOON)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        try:
            answer = client.get("/readyz")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert answer.status_code == 503
    assert answer.get_json()["problems"] == [
        "The database of this server cannot be read or written: the disk reports an error."
    ]


def test_tries_a_write_once_a_second_however_often_it_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, tries = [0.0], []
    monkeypatch.setattr(health_checks, "require_writable_database", lambda *_: tries.append(now[0]))
    with closing(GroupCommitter(store)) as group:
        check = WriteCheck(store, group, lambda: now[0])
        for now[0] in (0.0, 0.5, 0.9, 1.1):
            check.require_writable()

    assert tries == [0.0, 1.1]


def test_is_not_ready_while_uploads_are_refused(
    app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = app.extensions["perfci"].group_commit
    monkeypatch.setattr(group, "_writing_since", group._clock() - MAX_WAIT_S)

    assert client.get("/readyz").get_json()["problems"] == [
        "Uploads wait for a transaction that does not end: another process holds the database."
    ]


def test_a_readiness_check_changes_nothing(client: FlaskClient, store: Store) -> None:
    assert client.get("/readyz").status_code == 200
    with store.read() as tx:
        versions = tx.execute(sa.text("SELECT version_num FROM alembic_version")).scalars().all()

    assert versions == [SCHEMA]


def test_is_alive_but_not_ready_if_it_cannot_write(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        client = create_app(store, read_only=False).test_client()
        with closing(sqlite3.connect(tmp_path / "perfci.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            answers = client.get("/readyz"), client.get("/healthz")

    assert [answer.status_code for answer in answers] == [503, 200]
    assert answers[0].get_json()["problems"] == [
        "The database of this server is locked by another perfci process: wait for it to finish "
        "and try again."
    ]


def test_is_not_ready_without_disk_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=3 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        answer = create_app(store, read_only=False).test_client().get("/readyz")

    assert answer.get_json()["problems"] == ["3 MiB are free where the database is, 100 are needed."]


def test_labels_metrics_by_route_and_never_by_address(client: FlaskClient) -> None:
    for path in ("/nobody:home/", "/nobody:else/", "/api/v1/projects", "/no/such/page"):
        client.get(path)

    lines = client.get("/metrics").text.splitlines()

    counted = [line for line in lines if line.startswith("perfci_requests_total")]
    assert 'perfci_requests_total{method="GET",route="api.list_projects",status="200"} 1.0' in counted
    assert 'perfci_requests_total{method="GET",route="overview.overview_page",status="404"} 2.0' in counted
    assert not any("nobody" in line for line in lines)


def test_exports_the_lengths_of_queues(client: FlaskClient, store: Store) -> None:
    add_waiting_upload(store)

    lines = client.get("/metrics").text.splitlines()

    assert "perfci_outbox_waiting 1.0" in lines
    assert "perfci_outbox_oldest_seconds 3600.0" in lines


def test_exports_metrics_while_the_database_is_down(
    app: Flask, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> None:
        raise PerfciError("The database is gone.")

    monkeypatch.setattr(store, "read", gone)

    assert "perfci_store_readable 0.0" in app.test_client().get("/metrics").text.splitlines()


def test_logs_no_query_string(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "perfci.requests"):
        client.get("/api/v1/projects?cursor=secret", headers={"X-Request-Id": "request-1"})
        client.get("/healthz")

    (line,) = caplog.records
    assert line.getMessage().startswith("GET /api/v1/projects ")
    assert (line.request_id, line.actor, line.endpoint) == ("request-1", "local", "api.list_projects")
