"""Histories go on under other names over the API: counted first, audited, judged again, listed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from api_client import NOW, Api

from perfci.formats import run_document
from perfci.history.result_summaries import summarize_processes
from perfci.project_policies import ProjectPolicies
from perfci.service.worker.judge_worker import JudgeWorker
from perfci.store import Store
from perfci.store.verdicts_and_change_points import load_change_points
from tests.support.builders import NOON, PROJECT, a_commit, a_process, a_result, a_run, a_series, a_sha
from tests.support.stored_runs import ingest_run

HERE = "/api/v1/projects/acme:model/renames"
OLD, NEW = a_series("suite.time_old", version="v1"), a_series("suite.time_new", version="v2")


@pytest.fixture
def measured(store: Store) -> Store:
    """Ten commits of a benchmark, and ten more under its new name that are slower."""
    with store.begin() as tx:
        for number in range(1, 21):
            series, level = (OLD, 1.0) if number <= 10 else (NEW, 1.3)
            run = a_run(
                a_result(series, *(a_process(level * (1 + k / 1000), index=k) for k in range(3))),
                commit=a_commit(number),
                session=f"s{number}",
                started_at=NOON + timedelta(hours=number),
            )
            key = run_document.idempotency_key(run)
            ingest_run(tx, run, key, "body", kind="history", summarize=summarize_processes)
    return store


def test_counts_renames_judges_and_lists(api: Api, measured: Store) -> None:
    body = {"kind": "benchmark", "old": "suite.time_old", "new": "suite.time_new"}

    counted = api.client.post(HERE, json=body | {"dry_run": True})
    unchanged = api.client.get(HERE).json
    renamed = api.client.post(HERE, json=body)
    JudgeWorker(measured, lambda _: ProjectPolicies(), clock=lambda: NOW).run_once()

    moved = {"series": 1, "results": 10, "joined": 1}
    assert (counted.json, renamed.json) == (moved | {"dry_run": True}, moved | {"dry_run": False})
    assert unchanged == {"items": []}
    assert api.client.get(HERE).json == {"items": [body | {"defaults": {}, "series": 1}]}
    with measured.read() as tx:
        changes = load_change_points(tx, PROJECT)
    assert [(change.series, change.commit) for change in changes] == [(NEW, a_sha(11))]


@pytest.mark.parametrize(
    ("change", "status"), [({"old": "suite.time_odl"}, 404), ({"new": "a\u202eb"}, 400), ({"new": ""}, 400)]
)
def test_refuses_what_changes_nothing_or_cannot_be_read(
    api: Api, measured: Store, change: dict[str, str], status: int
) -> None:
    body = {"kind": "benchmark", "old": "suite.time_old", "new": "suite.time_new"}

    assert api.client.post(HERE, json=body | change).status_code == status
