"""An admin deletes what was stored by mistake; the judge worker carries it out."""

from __future__ import annotations

from api_client import NOW, Api

from perfci.formats import run_document
from perfci.project_policies import ProjectPolicies
from perfci.service.delete_runs_series_projects import DeletionJob
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store, check_integrity
from tests.support.builders import a_commit, a_process, a_result, a_run, a_series

HERE = "/api/v1/projects/acme:model"


def test_deletes_a_run_and_stores_it_anew(api: Api, store: Store) -> None:
    run = a_run(a_result(a_series("secret"), a_process(1.0)))
    worker = JudgeWorker(
        store, lambda _: ProjectPolicies(), clock=lambda: NOW, periodic_jobs=[DeletionJob(store)]
    )
    assert api.upload(run).status_code == 201
    address = f"{HERE}/runs/{run_document.idempotency_key(run)}"

    deleted = api.client.delete(address).status_code
    worker.drain()
    again = api.client.delete(address).status_code

    assert (deleted, again, api.get("/projects/acme:model/series").json["items"]) == (202, 404, [])
    assert api.upload(run).status_code == 201
    worker.drain()
    assert len(api.get("/projects/acme:model/series").json["items"]) == 1


def test_deletes_a_project_whose_name_is_free_afterwards(api: Api, store: Store) -> None:
    worker = JudgeWorker(
        store, lambda _: ProjectPolicies(), clock=lambda: NOW, periodic_jobs=[DeletionJob(store)]
    )
    for number in (1, 2):
        run = a_run(a_result(None, a_process(1.0)), commit=a_commit(number), session=f"s{number}")
        assert api.upload(run).status_code == 201

    assert api.client.delete(HERE).status_code == 202
    refused = api.upload(a_run(a_result(None, a_process(1.0)), session="late"))
    worker.drain()

    assert (refused.status_code, refused.json["detail"]) == (403, "This project is archived and read-only.")
    assert api.get("/projects/acme:model").status_code == 404
    assert api.upload(run).status_code == 201
    assert check_integrity(store.url) == []


def test_deletes_a_series(api: Api, store: Store) -> None:
    api.upload(
        a_run(a_result(a_series("secret"), a_process(1.0)), a_result(a_series("kept"), a_process(1.0)))
    )
    ids = {item["benchmark"]: item["id"] for item in api.get("/projects/acme:model/series").json["items"]}

    assert api.client.delete(f"{HERE}/series/{ids['secret']}").status_code == 202
    DeletionJob(store)(NOW)

    left = [item["benchmark"] for item in api.get("/projects/acme:model/series").json["items"]]
    assert left == ["kept"]
