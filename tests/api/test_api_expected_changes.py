"""Expected changes of a commit are recorded only by callers that may write its history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from api_client import NOW, Api

from perfci.auth.job_grants import JobGrant, explain_expected_change_refusal
from perfci.net.api_client import ApiClient, ApiError
from perfci.net.api_schemas.verdicts_and_expected_changes import (
    ExpectedChangeShape,
    NewExpectedChange,
    NewExpectedChanges,
)
from perfci.net.http_client import open_http_client
from perfci.store import Store
from perfci.store.jobs import work_queue_and_leases
from perfci.store.projects import create_project
from tests.support.builders import NOON, PROJECT, a_sha

P = "/projects/acme:model/expected-changes"
MEMORY = NewExpectedChange(match="peak_bytes", relative_change=0.03, reason="the cache holds two layers")
SPEED = NewExpectedChange(match="training.*", relative_change=-0.025, reason="fewer tokens, more of each")
EXPECTED_CHANGES = NewExpectedChanges(commit=a_sha(12), source="#12", merged_at=NOON, items=(MEMORY, SPEED))


@pytest.fixture
def client(api: Api, store: Store) -> Iterator[ApiClient]:
    with store.begin() as tx:
        create_project(tx, PROJECT, "private", NOON)
    transport = httpx.WSGITransport(app=api.app)
    with closing(open_http_client("http://localhost:8787", transport=transport)) as door:
        yield ApiClient(door)


def test_records_and_lists_expected_changes_newest_first(client: ApiClient) -> None:
    added_count = client.add_expected_changes(PROJECT, EXPECTED_CHANGES).added

    expected_changes = list(client.list_expected_changes(PROJECT))
    assert (added_count, [change.match for change in expected_changes]) == (2, ["training.*", "peak_bytes"])
    assert expected_changes[1] == ExpectedChangeShape(
        commit=a_sha(12),
        match="peak_bytes",
        relative_change=0.03,
        reason="the cache holds two layers",
        source="#12",
        merged_at=NOON,
        recorded_by="local",
        recorded_at=NOW,
    )


def test_stores_and_evaluates_a_repeated_expected_change_once(client: ApiClient, store: Store) -> None:
    messages = [client.add_expected_changes(PROJECT, EXPECTED_CHANGES).added for _ in range(2)]

    with store.read() as tx:
        work = work_queue_and_leases.load_next_project_work(tx, ["evaluate"], 9, NOW)
    assert (messages, [job.subject for job in work]) == ([2, 0], ["expected_changes"])


@pytest.mark.parametrize(
    "changes",
    [
        {"commit": "main"},
        {"items": []},
        {"items": [{"match": "peak\nbytes", "relative_change": 0.03, "reason": "meant"}]},
        {"items": [{"match": "peak", "relative_change": 10_001, "reason": "meant"}]},
        {"items": [{"match": "peak", "relative_change": 0.03, "reason": ""}]},
        {"items": [MEMORY.model_dump()] * 21},
        {"project": PROJECT},
    ],
    ids=["a branch", "nothing", "two lines", "too much", "no reason", "too many", "another word"],
)
def test_refuses_impossible_expected_changes(client: ApiClient, api: Api, changes: dict[str, Any]) -> None:
    body = EXPECTED_CHANGES.model_dump(mode="json") | changes

    assert api.client.post(f"/api/v1{P}", json=body).status_code == 400
    assert list(client.list_expected_changes(PROJECT)) == []


def test_creates_no_project_for_an_expected_change(client: ApiClient) -> None:
    with pytest.raises(ApiError, match="Not found, or you may not see it"):
        client.add_expected_changes("acme/other", EXPECTED_CHANGES)

    assert [project.project for project in client.list_projects()] == [PROJECT]


PUSHED = JobGrant("1", 1, a_sha(12), baseline=True, event="push")


@pytest.mark.parametrize(
    ("grant", "sha", "objection"),
    [
        (PUSHED, a_sha(12), ""),
        (
            PUSHED,
            a_sha(11),
            "This token is for the commit 0000000ccccc, and what was announced is of 0000000bcccc.",
        ),
        (JobGrant("1", 1, a_sha(12), baseline=True, event="workflow_dispatch"), a_sha(11), ""),
        (
            JobGrant("1", 1, a_sha(12), pull_request=7, event="pull_request"),
            a_sha(12),
            "A history is written by push",
        ),
    ],
    ids=["of its own commit", "of another one", "started by hand", "of a pull request"],
)
def test_lets_a_job_record_expected_changes_of_commits_it_may_write(
    grant: JobGrant, sha: str, objection: str
) -> None:
    result = explain_expected_change_refusal(grant, sha)

    assert result.startswith(objection)
    assert bool(result) is bool(objection)
