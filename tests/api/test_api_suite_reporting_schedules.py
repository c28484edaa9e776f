"""How often suites report, over the API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from api_client import NOW, Api

from perfci.service.missing_data.missing_data_monitor import MissingDataMonitor
from perfci.store import Store, projects
from perfci.store.access import audit_log
from tests.support.builders import NOON, PROJECT, a_result, a_run

P = "/projects/acme:model/reporting-schedules"


@pytest.fixture
def watched(api: Api, store: Store) -> None:
    api.upload(a_run(a_result()))
    with store.begin() as tx:
        project = projects.find_project(tx, PROJECT)
        assert project is not None
        MissingDataMonitor()(tx, project, NOW + timedelta(days=1))


def put_schedule(api: Api, **changes: object) -> int:
    return api.client.put(f"/api/v1{P}", json={"id": 1} | changes).status_code


def test_lists_reporting_schedules(api: Api, watched: None) -> None:
    [item] = api.get(P).json["items"]

    assert (item["suite"], item["branch"], item["series_count"], item["set_by"]) == (
        "benchmarks",
        "main",
        1,
        "learned",
    )
    assert "every_s" not in item
    assert item["last_run_at"] >= NOON.isoformat()[:19]


def test_records_who_changed_a_reporting_schedule(api: Api, store: Store, watched: None) -> None:
    assert put_schedule(api, every_s=3600, muted=True) == 200

    [item] = api.get(P).json["items"]
    assert (item["every_s"], item["muted"], item["set_by"]) == (3600.0, True, "local")
    with store.read() as tx:
        assert audit_log.list_entries(tx, 1)[0].action == "reporting_schedule.set"


def test_learns_a_cleared_schedule_again(api: Api, watched: None) -> None:
    put_schedule(api, every_s=3600)

    assert put_schedule(api) == 200
    assert api.get(P).json["items"][0]["set_by"] == "learned"


@pytest.mark.parametrize(
    ("changes", "status"), [({"id": 9}, 404), ({"every_s": 1}, 400), ({"often": 1}, 400)]
)
def test_refuses_invalid_schedules(api: Api, watched: None, changes: dict[str, object], status: int) -> None:
    assert put_schedule(api, **changes) == status
