"""Health checks, readiness, Prometheus metrics and the request log."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from perfci.model import PerfciError
from perfci.store import Store, open_store, projects
from perfci.store.jobs import work_queue_and_leases
from perfci.store.projects import enqueue_work
from perfci_web import create_app
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
        (work,) = work_queue_and_leases.load_due_work(tx, ("judge",), 10, NOON)
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
