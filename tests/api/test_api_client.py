"""The typed client against the real application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import httpx
import pytest
from api_client import NOW, Api

from perfci.net.api_client import ApiClient, ApiError
from perfci.net.api_schemas.suite_reporting_schedules import ReportingScheduleChange
from perfci.net.http_client import open_http_client
from perfci.service.missing_data.missing_data_monitor import MissingDataMonitor
from perfci.store import Store
from perfci.store.column_conversions import series_identity
from perfci.store.projects import find_project
from perfci.store.verdicts_and_change_points import add_verdicts
from tests.support.builders import NOON, PROJECT, a_commit, a_result, a_run, a_series, a_sha, a_verdict


@pytest.fixture
def client(api: Api, store: Store) -> Iterator[ApiClient]:
    for number in (1, 2, 3):
        api.upload(
            a_run(
                a_result(),
                commit=a_commit(number),
                session=f"s{number}",
                started_at=NOON + timedelta(hours=number),
            )
        )
    with store.begin() as tx:
        add_verdicts(tx, PROJECT, "s2", [a_verdict(evidence=(1, 2))], NOW)
    transport = httpx.WSGITransport(app=api.app)
    with closing(open_http_client("http://localhost:8787", transport=transport)) as door:
        yield ApiClient(door)


def test_follows_the_pages_of_a_list(client: ApiClient) -> None:
    assert [run.session for run in client.list_runs(PROJECT, limit=2)] == ["s3", "s2", "s1"]


def test_parses_series_comparisons_and_verdicts(client: ApiClient) -> None:
    (series,) = client.list_series(PROJECT)

    assert series.id == series_identity(PROJECT, a_series())
    assert [point.commit for point in client.get_series_points(PROJECT, series.id).points] == [
        a_sha(1),
        a_sha(2),
        a_sha(3),
    ]
    assert client.get_comparison_summary(PROJECT, a_sha(1), a_sha(2)).counts == {"regression": 1}
    assert [
        verdict.verdict for verdict in client.list_comparison_verdicts(PROJECT, a_sha(1), a_sha(2), limit=1)
    ] == ["regression"]
    assert [
        (summary.series, summary.base, summary.head)
        for summary in client.list_levels_at_two_commits(PROJECT, a_sha(1), a_sha(2))
    ] == [(series.id, 1.0, 1.0)]
    assert [
        len(client.get_verdict(PROJECT, verdict.id).processes) for verdict in client.list_verdicts(PROJECT)
    ] == [2]


def test_lists_projects_machines_and_environments(client: ApiClient) -> None:
    assert [project.project for project in client.list_projects()] == [PROJECT]
    assert [machine.label for machine in client.list_machines(PROJECT)] == ["AMD EPYC, 2 cores, 23 GB"]
    assert [environment.values for environment in client.list_environments(PROJECT)] == [{"torch": "2.13.0"}]
    assert client.get_commit(PROJECT, a_sha(2)[:9]).position == 2
    assert list(client.list_incidents(PROJECT)) == []


def test_changes_a_reporting_schedule(client: ApiClient, store: Store) -> None:
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        MissingDataMonitor()(tx, project, NOW)
    [schedule] = client.list_suite_reporting_schedules(PROJECT)

    [changed] = client.set_suite_reporting_schedule(
        PROJECT, ReportingScheduleChange(id=schedule.id, every_s=3600)
    )

    assert (schedule.suite, schedule.every_s, changed.every_s) == ("benchmarks", None, 3600)
    assert list(client.list_unresolved_results(PROJECT)) == []


def test_streams_a_project_as_a_file(client: ApiClient) -> None:
    assert b"".join(client.download_project_export(PROJECT, "csv")).startswith(
        b"project,commit,committed_at,"
    )


def test_reports_a_problem_with_the_detail_of_the_server(client: ApiClient) -> None:
    with pytest.raises(ApiError, match=r"localhost:8787 answers 404: There is no series") as refused:
        client.get_series_points(PROJECT, "0" * 64)

    assert (refused.value.status, refused.value.is_transient) == (404, False)


def test_refuses_responses_of_other_servers() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text="<html>"))

    with pytest.raises(ApiError, match="is this its address"):
        ApiClient(open_http_client("http://localhost", transport=transport)).list_projects()
