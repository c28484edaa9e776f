"""A project is bound to a repository by whoever may speak for it, and by nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from github_jobs import BOUND, HERE, Jobs
from werkzeug.test import TestResponse

from perfci.auth.permissions import LOCAL, Scope
from perfci.service.accounts import projects_members_tokens
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.access import audit_log
from perfci.store.projects import create_project
from tests.support.signed_job_tokens import NOW, a_job, of_pull_request, signed

OWN = "/projects/rival:own/repository"
OTHER = {"repository": "rival/own", "repository_id": 7, "owner_id": 8}
OTHER_JOB = {"repository": "rival/own", "repository_id": "7", "repository_owner_id": "8"}


class ProjectAdmin:
    """The admin of a project of his own, with a token for it."""

    def __init__(self, jobs: Jobs, store: Store) -> None:
        self.jobs = jobs
        context = AuditContext(LOCAL, NOW)
        with store.begin() as tx:
            self.project = create_project(tx, "rival/own", "private", NOW)
            token = projects_members_tokens.create_token(tx, context, self.project, "his", {Scope.ADMIN})
        self.headers = {"Authorization": f"Bearer {token.text}"}

    def bind(self, repository: dict[str, Any], **changes: Any) -> TestResponse:
        body = BOUND | repository | changes
        return self.jobs.client.put(f"/api/v1{OWN}", json=body, headers=self.headers)


@pytest.fixture
def rival(jobs: Jobs, store: Store) -> ProjectAdmin:
    return ProjectAdmin(jobs, store)


def test_an_admin_of_a_project_cannot_bind_it_to_any_repository(jobs: Jobs, rival: ProjectAdmin) -> None:
    jobs.client.delete(f"/api/v1{HERE}")

    answer = rival.bind({})

    assert (answer.status_code, answer.json["detail"].partition(":")[0]) == (
        403,
        "Nothing shows that you may speak for acme/model",
    )
    assert jobs.get(OWN).status_code == 404


def test_binds_with_the_token_of_a_job_of_the_repository_once(
    jobs: Jobs, rival: ProjectAdmin, store: Store
) -> None:
    proof = signed(a_job(**OTHER_JOB))

    bound = rival.bind(OTHER, proof=proof)
    jobs.client.delete(f"/api/v1{OWN}")
    again = rival.bind(OTHER, proof=proof)

    assert (bound.status_code, again.status_code) == (200, 403)
    with store.read() as tx:
        [entry] = [
            entry
            for entry in audit_log.list_entries(tx, rival.project.id)
            if entry.action == "repository.bind"
        ]
    assert entry.detail["proof"] == "job"


@pytest.mark.parametrize(
    ("claims", "status", "detail"),
    [
        (a_job(), 403, "The token is of a job of acme/model, and the project would be bound to rival/own"),
        (of_pull_request(**OTHER_JOB), 403, "The token is of a job that pull_request started"),
        (a_job(**OTHER_JOB, aud="https://other.example.com"), 401, "This token was made for another server"),
        (a_job(**OTHER_JOB | {"repository_owner_id": "9"}), 403, "The token is of a job of rival/own, and"),
    ],
    ids=["another repository", "a pull request", "another server", "another owner"],
)
def test_refuses_tokens_that_prove_something_else(
    rival: ProjectAdmin, claims: dict[str, Any], status: int, detail: str
) -> None:
    answer = rival.bind(OTHER, proof=signed(claims))

    assert (answer.status_code, answer.json["detail"][: len(detail)]) == (status, detail)


def test_only_an_admin_of_all_projects_binds_a_repository_twice(jobs: Jobs, rival: ProjectAdmin) -> None:
    refused = rival.bind({}, proof=signed(a_job()))
    by_server_admin = jobs.client.put(f"/api/v1{OWN}", json=BOUND)

    assert (refused.status_code, by_server_admin.status_code) == (403, 200)
    assert refused.json["detail"].startswith("Another project of this server is bound to acme/model already")


def test_changes_what_is_bound_without_another_proof(jobs: Jobs, rival: ProjectAdmin) -> None:
    jobs.client.put(f"/api/v1{OWN}", json=BOUND)

    assert rival.bind({}, refs=["refs/heads/next"]).json["refs"] == ["refs/heads/next"]
