"""Archiving series over the API: all of a benchmark or machine or one, listed, and brought back."""

from __future__ import annotations

from typing import Any

from api_client import Api
from werkzeug.test import TestResponse

from perfci.store import Store
from perfci.store.column_conversions import series_identity
from tests.support.builders import PROJECT, a_result, a_run, a_series
from tests.support.stored_runs import ingest_run

HERE = "/api/v1/projects/acme:model/archived-series"
NAME = a_series().benchmark.name
OTHER = a_series("suite.other")


def put(api: Api, **body: Any) -> TestResponse:
    return api.client.put(HERE, json=body)


def test_archives_lists_and_brings_back(api: Api, store: Store) -> None:
    with store.begin() as tx:
        ingest_run(tx, a_run(a_result(), a_result(OTHER)), "key", "body", kind="history")

    archived = put(api, benchmark=NAME, reason="its model is gone")
    again = put(api, series=series_identity(PROJECT, a_series()), reason="another reason")
    all_of_machine = put(api, machine=OTHER.machine.label, reason="sold")

    assert [answer.get_json() for answer in (archived, again, all_of_machine)] == [
        {"series": 1},
        {"series": 0},
        {"series": 1},
    ]
    items = api.client.get(HERE).get_json()["items"]
    assert [(item["benchmark"], item["reason"]) for item in items] == [
        (NAME, "its model is gone"),
        (OTHER.benchmark.name, "sold"),
    ]
    assert api.client.get(f"{HERE}?limit=1").get_json()["next"]

    assert put(api, machine=OTHER.machine.label, archived=False).get_json() == {"series": 2}
    assert api.client.get(HERE).get_json()["items"] == []


def test_refuses_what_names_nothing_or_gives_no_reason(api: Api, store: Store) -> None:
    with store.begin() as tx:
        ingest_run(tx, a_run(a_result()), "key", "body", kind="history")

    nothing, two = put(api, reason="x"), put(api, benchmark=NAME, machine="m", reason="x")
    assert [answer.status_code for answer in (nothing, two, put(api, benchmark=NAME))] == [409, 409, 409]
    unknown = put(api, benchmark="nothing.like_it", reason="x")
    assert unknown.status_code == 409
    assert unknown.get_json()["detail"] == f"{PROJECT} has no benchmark nothing.like_it; nothing was changed."
