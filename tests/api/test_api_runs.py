from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from api_client import NOW, Api
from sqlalchemy.exc import OperationalError

from perfci.formats import run_document
from perfci.model import Clock, ResultSummary, Role, Status
from perfci.store import Store
from perfci.store.jobs import work_queue_and_leases
from perfci.store.queries import measured_samples, runs_and_sessions, series_search
from perfci.store.queries.judging_inputs import load_result_levels
from perfci.store.transactions import translate_errors
from tests.support.builders import a_commit, a_failed_process, a_process, a_result, a_run, a_series


def test_stores_an_upload_and_answers_with_a_receipt(api: Api, store: Store) -> None:
    answer = api.upload(a_run(a_result()))

    assert answer.status_code == 201
    assert answer.json == {
        "key": run_document.idempotency_key(a_run()),
        "project": "acme/model",
        "stored": True,
        "results": 1,
        "samples": 1,
    }
    with store.read() as tx:
        assert runs_and_sessions.load_sessions(tx, "acme/model")[0].kind == "history"


def test_stores_a_repeated_upload_once(api: Api) -> None:
    api.upload(a_run(a_result()))

    again = api.upload(a_run(a_result()))

    assert (again.status_code, again.json["stored"]) == (200, False)


def test_refuses_another_body_under_the_same_key(api: Api) -> None:
    api.upload(a_run(a_result()))

    other = api.upload(a_run(a_result(None, a_process(2.0))))

    assert other.status_code == 409
    assert other.content_type == "application/problem+json"
    assert other.json["type"] == "/api/problems/conflict"
    assert other.json["instance"] == other.headers["X-Request-Id"]


def test_stores_result_summaries_with_an_upload(api: Api, store: Store) -> None:
    failed = a_result(a_series("suite.b"), a_failed_process(), status=Status.FAILED)

    api.upload(a_run(a_result(None, a_process(3.0, 1.0), a_process(4.0, index=1)), failed))

    with store.read() as tx:
        levels = load_result_levels(
            tx, [series.id for series in series_search.search_series(tx, "acme/model")]
        )
    assert {row.status: row.result_summary for row in levels} == {
        "ok": ResultSummary(3.0, Clock.WALL, 3.0),
        "failed": None,
    }


def test_enqueues_judging_of_a_stored_upload(api: Api, store: Store) -> None:
    run = a_run(a_result())

    api.upload(run)
    api.upload(run)

    with store.read() as tx:
        work = work_queue_and_leases.load_next_project_work(tx, ["judge"], 10, NOW)
    assert [(job.project, job.subject) for job in work] == [("acme/model", run_document.idempotency_key(run))]


def test_keeps_pull_requests_pairs_and_dirty_trees_out_of_the_history(api: Api, store: Store) -> None:
    base = a_process(role=Role.BASE, pair=0)
    head = a_process(role=Role.HEAD, pair=0)
    runs = {
        "of a pull request": a_run(a_result(), session="pr", origin=(("event", "pull_request_target"),)),
        "one side of pairs": a_run(a_result(None, head), session="pairs"),
        "both sides of pairs": a_run(a_result(None, base, head), session="aa"),
        "dirty": a_run(a_result(), session="dirty", commit=a_commit(dirty=True)),
    }

    statuses = [api.upload(run).status_code for run in runs.values()]

    assert statuses == [201] * 4
    with store.read() as tx:
        kinds = {session.uid: session.kind for session in runs_and_sessions.load_sessions(tx, "acme/model")}
        series = series_search.find_series_of_benchmark(tx, "acme/model", a_series().benchmark.name)
        assert measured_samples.load_history(tx, series[0].id) == []
    assert kinds == {"pr": "pull_request", "pairs": "compare", "aa": "aa", "dirty": "compare"}


def test_accepts_concurrent_first_uploads_of_a_project(api: Api) -> None:
    with ThreadPoolExecutor(4) as threads:
        statuses = list(
            threads.map(lambda n: api.upload(a_run(a_result(), session=f"s{n}")).status_code, range(12))
        )

    assert statuses == [201] * 12


def test_answers_503_while_the_database_is_gone(
    api: Api, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def gone() -> Iterator[None]:
        with translate_errors("the database"):
            raise OperationalError("SELECT 1", {}, psycopg.OperationalError("server closed the connection"))
        yield

    api.upload(a_run(a_result()))
    monkeypatch.setattr(Store, "read", lambda _: gone())

    answer = api.upload(a_run(a_result(), session="later"))

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_lists_the_projects(api: Api) -> None:
    api.upload(a_run(a_result()))

    answer = api.get("/projects")

    assert answer.json["items"] == [
        {"project": "acme/model", "visibility": "private", "version": 1, "archived": False, "settings": {}}
    ]


def test_answers_unknown_addresses_and_methods_with_problems(api: Api) -> None:
    unknown, method = api.get("/nothing"), api.client.delete("/api/v1/projects")

    assert (unknown.status_code, unknown.json["type"]) == (404, "/api/problems/not-found")
    assert (method.status_code, method.json["type"], method.headers["Allow"]) == (
        405,
        "/api/problems/method-not-allowed",
        "GET, HEAD, POST",
    )
