"""The typed client against the real application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import httpx
import pytest
from api_client import NOW, Api
from builders import NOON, PROJECT, a_commit, a_result, a_run, a_series, a_sha, a_verdict

from perfci.net.api_client import Client, Refused
from perfci.net.http_client import open_client
from perfci.net.shapes.reporting_schedules import NewExpectation
from perfci.service.missing_data.missing_data_monitor import Watch
from perfci.store import Store
from perfci.store.conversions import series_identity
from perfci.store.projects import project
from perfci.store.writes.ingest import add_verdicts


@pytest.fixture
def client(api: Api, store: Store) -> Iterator[Client]:
    for number in (1, 2, 3):
        api.upload(
            a_run(a_result(), commit=a_commit(number), session=f"s{number}", started_at=NOON + timedelta(hours=number))
        )
    with store.begin() as tx:
        add_verdicts(tx, PROJECT, "s2", [a_verdict(evidence=(1, 2))], NOW)
    transport = httpx.WSGITransport(app=api.app)
    with closing(open_client("http://localhost:8787", transport=transport)) as door:
        yield Client(door)


def test_follows_the_pages_of_a_list(client: Client) -> None:
    assert [one.session for one in client.runs(PROJECT, limit=2)] == ["s3", "s2", "s1"]


def test_reads_what_the_server_tells(client: Client) -> None:
    (series,) = client.series(PROJECT)

    assert series.id == series_identity(PROJECT, a_series())
    assert [one.commit for one in client.points(PROJECT, series.id).points] == [a_sha(1), a_sha(2), a_sha(3)]
    assert client.comparison(PROJECT, a_sha(1), a_sha(2)).counts == {"regression": 1}
    assert [one.verdict for one in client.compared(PROJECT, a_sha(1), a_sha(2), limit=1)] == ["regression"]
    assert [(one.series, one.base, one.head) for one in client.levels(PROJECT, a_sha(1), a_sha(2))] == [
        (series.id, 1.0, 1.0)
    ]
    assert [len(client.verdict(PROJECT, one.id).processes) for one in client.verdicts(PROJECT)] == [2]


def test_lists_what_measured(client: Client) -> None:
    assert [one.project for one in client.projects()] == [PROJECT]
    assert [one.label for one in client.machines(PROJECT)] == ["AMD EPYC, 2 cores, 23 GB"]
    assert [one.values for one in client.environments(PROJECT)] == [{"torch": "2.13.0"}]
    assert client.commit(PROJECT, a_sha(2)[:9]).position == 2
    assert list(client.incidents(PROJECT)) == []


def test_corrects_what_is_expected(client: Client, store: Store) -> None:
    with store.begin() as tx:
        found = project(tx, PROJECT)
        assert found is not None
        Watch()(tx, found, NOW)
    [known] = client.expectations(PROJECT)

    [said] = client.set_expectation(PROJECT, NewExpectation(id=known.id, every_s=3600))

    assert (known.suite, known.every_s, said.every_s) == ("benchmarks", None, 3600)
    assert list(client.quarantined(PROJECT)) == []


def test_streams_a_project_as_a_file(client: Client) -> None:
    assert b"".join(client.export(PROJECT, "csv")).startswith(b"project,commit,committed_at,")


def test_tells_a_problem_in_the_servers_words(client: Client) -> None:
    with pytest.raises(Refused, match=r"localhost:8787 answers 404: There is no series") as refused:
        client.points(PROJECT, "0" * 64)

    assert (refused.value.status, refused.value.passing) == (404, False)


def test_takes_no_other_server_for_perfci() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))

    with pytest.raises(Refused, match="is this its address"):
        Client(open_client("http://localhost", transport=transport)).projects()
