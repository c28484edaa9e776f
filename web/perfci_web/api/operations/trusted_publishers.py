"""Jobs elsewhere: which repository's may write to a project, and the tokens they are given."""

from __future__ import annotations

from perfci.auth.permissions import AccessRequirement
from perfci.net.jwks import IssuerUnavailable
from perfci.net.shapes.github_jobs import (
    CreatedJobToken,
    IdTokenExchange,
    NewRepositoryBinding,
    RepositoryBindingShape,
)
from perfci.service.accounts import repository_bindings
from perfci.service.accounts.job_tokens import build_expected_claims, issue_job_token
from perfci.service.audit_context import AuditContext
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository
from perfci_web.api.calls import Call, Reply
from perfci_web.api.operation import Operation
from perfci_web.api.problems import ProblemError

NOT_BOUND = "This project is bound to no repository."


def exchange_token(call: Call) -> Reply:
    asked: IdTokenExchange = call.body
    try:
        made = issue_job_token(
            call.group_commit,
            call.find_signing_key,
            build_expected_claims(call.settings),
            asked.project,
            asked.token,
            now=call.now,
            request_id=call.request_id,
        )
    except IssuerUnavailable as error:
        raise ProblemError("unavailable", str(error), headers={"Retry-After": "5"}) from error
    told = CreatedJobToken(
        secret=made.text, expires_at=made.token.expires_at, may_write_history=made.token.baseline
    )
    return Reply(told, 201)


def get_repository(call: Call) -> Reply:
    with call.store.read() as tx:
        found = github_bindings.find_bound_repository(tx, call.required_project.id)
    if found is None:
        raise ProblemError("not-found", NOT_BOUND)
    return Reply(_repository_shape(found))


def bind_repository(call: Call) -> Reply:
    asked: NewRepositoryBinding = call.body
    wanted = repository_bindings.build_bound_repository(
        asked.repository,
        asked.repository_id,
        asked.owner_id,
        asked.workflow,
        asked.environment or "",
        asked.refs,
    )
    call.group_commit.submit(
        lambda tx: repository_bindings.bind_repository(
            tx, _audit_context(call), call.required_project, wanted
        )
    )
    return Reply(_repository_shape(wanted))


def unbind_repository(call: Call) -> Reply:
    if not call.group_commit.submit(
        lambda tx: repository_bindings.unbind_repository(tx, _audit_context(call), call.required_project)
    ):
        raise ProblemError("not-found", NOT_BOUND)
    return Reply(None)


def _audit_context(call: Call) -> AuditContext:
    return AuditContext(call.actor, call.now, call.request_id)


def _repository_shape(repository: BoundRepository) -> RepositoryBindingShape:
    return RepositoryBindingShape(
        repository=repository.slug,
        repository_id=repository.repository_id,
        owner_id=repository.owner_id,
        workflow=repository.workflow,
        environment=repository.environment,
        refs=repository.refs,
    )


OPERATIONS = (
    Operation(
        "exchange_token",
        "POST",
        "/oidc/token",
        AccessRequirement.PUBLIC,
        exchange_token,
        "Give a job of GitHub Actions a token for what it measured, against what GitHub signed of it",
        body=IdTokenExchange,
        answers={201: CreatedJobToken},
    ),
    Operation(
        "get_repository",
        "GET",
        "/projects/<project:project>/repository",
        AccessRequirement.ADMIN,
        get_repository,
        "The repository whose jobs may upload",
        answers={200: RepositoryBindingShape},
    ),
    Operation(
        "bind_repository",
        "PUT",
        "/projects/<project:project>/repository",
        AccessRequirement.ADMIN,
        bind_repository,
        "Let the jobs of a repository upload, in the place of those before",
        body=NewRepositoryBinding,
        answers={200: RepositoryBindingShape},
    ),
    Operation(
        "unbind_repository",
        "DELETE",
        "/projects/<project:project>/repository",
        AccessRequirement.ADMIN,
        unbind_repository,
        "Let no jobs upload any more; the tokens they were given end",
        answers={204: None},
    ),
)
