"""Series that are not measured any more: not expected, listed apart, and back with their next result."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from page_reading import P, read, words
from web_builders import COMMITS, LEVELS, NOW, PROJECT, UNAVAILABLE, a_run, a_store, fill

from perfci.history.load_series_points import refresh_series_points
from perfci.model import Machine, Run
from perfci.store import Store
from perfci.store.projects import find_project
from perfci.store.queries.archived_series import ARCHIVED_AFTER, load_archived_series_ids
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci_web import create_app

OLD = Machine(name="<b>retired")


def a_run_on_old(number: int, started: datetime) -> Run:
    results = tuple(
        replace(result, series=replace(result.series, machine=OLD)) for result in a_run(number).results
    )
    return replace(
        a_run(number),
        machine=OLD,
        results=results,
        session="history-old",
        started_at=started,
        finished_at=None,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The project, and the same benchmarks on a machine that last ran a little too long ago."""
    store = a_store(tmp_path)
    fill(store)
    last = a_run(COMMITS - 1).started_at - ARCHIVED_AFTER - timedelta(minutes=1)
    with store.begin() as tx:
        start_session(tx, PROJECT, "history-old", "history", "spec-old", 7, 1, last)
        find_or_add_run(tx, a_run_on_old(3, last))
    yield store
    store.close()


@pytest.fixture
def client(store: Store) -> FlaskClient:
    return create_app(store, clock=lambda: NOW).test_client()


def test_they_are_not_expected_at_the_newest_commit(client: FlaskClient) -> None:
    coverage = client.get(f"{P}.json").json["coverage"]

    assert coverage["archived"] == len(LEVELS)
    assert [series["machine"] for series in coverage["not_run"]] == ["AMD EPYC 9354, 2 cores, 16 GB"]
    assert f"{len(LEVELS)} archived: not measured for 90 days" in words(read(client, f"{P}/"))


def test_the_list_has_them_apart(client: FlaskClient) -> None:
    text, archived = (read(client, f"{P}/benchmarks{query}") for query in ("", "?show=archived"))

    assert "retired" not in text
    assert f"{len(LEVELS)} archived: not measured for 90 days" in words(text)
    assert f"{len(LEVELS)} archived series." in words(archived)
    assert "&lt;b&gt;retired" in archived
    assert "<b>retired" not in archived
    rows = list(csv.DictReader(io.StringIO(client.get(f"{P}/benchmarks.csv?show=archived").text)))
    assert {row["machine"] for row in rows} == {"<b>retired"}
    document = client.get(f"{P}/benchmarks.json").json
    assert document["archived"] == len(LEVELS)
    assert OLD.name not in {series["machine"] for series in document["series"]}
    assert "Only archived series have “retired”" in words(read(client, f"{P}/benchmarks?q=retired"))


def test_a_new_result_brings_a_series_back(client: FlaskClient, store: Store) -> None:
    with store.begin() as tx:
        find_or_add_run(tx, a_run_on_old(4, a_run(COMMITS - 1).started_at))

    assert client.get(f"{P}/benchmarks.json").json["archived"] == 0
    assert client.get(f"{P}.json").json["coverage"]["archived"] == 0


def test_stored_points_say_the_same(store: Store) -> None:
    with store.read() as tx:
        before = load_archived_series_ids(tx, PROJECT)
        project = find_project(tx, PROJECT)
    assert project is not None

    refresh_series_points(store, project)

    with store.read() as tx:
        assert load_archived_series_ids(tx, PROJECT) == before
        assert len(before) == len(LEVELS) + len(UNAVAILABLE)
