"""Trusted publishing: the repository whose CI jobs may upload, and the tokens of these jobs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from perfci.auth.permissions import AccessRequirement
from perfci.net.api_schemas.projects_and_access import (
    CreatedJobToken,
    IdTokenExchange,
    NewRepositoryBinding,
    RepositoryBindingShape,
)
from perfci.net.jwks import IssuerUnavailable
from perfci.service.accounts import repository_bindings
from perfci.service.accounts.job_tokens import build_expected_issuer, issue_job_token
from perfci.service.accounts.repository_ownership import (
    OwnershipEvidence,
    find_ownership_proof,
    require_right_to_bind,
)
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository
from perfci_web.api.operation import PROJECT_RULE, Call, Operation, Reply
from perfci_web.api.problem_details import ProblemError

NOT_BOUND = "This project is bound to no repository."


def exchange_oidc_token(call: Call) -> Reply:
    request: IdTokenExchange = call.body
    try:
        issued = issue_job_token(
            call.group_commit,
            partial(_find_key_if_anything_is_bound, call),
            build_expected_issuer(call.settings),
            request.project,
            request.token,
            now=call.audit_context.at,
            request_id=call.audit_context.request_id,
        )
    except IssuerUnavailable as error:
        raise ProblemError("unavailable", str(error), headers={"Retry-After": "5"}) from error
    token = CreatedJobToken(
        secret=issued.text, expires_at=issued.token.expires_at, may_write_history=issued.token.baseline
    )
    return Reply(token, 201)


def _find_key_if_anything_is_bound(call: Call, kid: str) -> Mapping[str, Any] | None:
    """Nobody makes a server ask GitHub for keys that would admit no job."""
    with call.store.read() as tx:
        is_anything_bound = github_bindings.has_any_binding(tx)
    return call.find_signing_key(kid) if is_anything_bound else None


def get_repository_binding(call: Call) -> Reply:
    with call.store.read() as tx:
        repository = github_bindings.find_repository_of_project(tx, call.required_project.id)
    if repository is None:
        raise ProblemError("not-found", NOT_BOUND)
    return Reply(_build_repository_payload(repository))


def bind_repository(call: Call) -> Reply:
    request: NewRepositoryBinding = call.body
    repository = repository_bindings.build_bound_repository(
        request.repository,
        request.repository_id,
        request.owner_id,
        request.workflow,
        request.environment or "",
        request.refs,
    )
    context, project = call.audit_context, call.required_project
    evidence = OwnershipEvidence(
        request.proof or "",
        lambda: build_expected_issuer(call.settings),
        call.find_signing_key,
        call.find_administered_repository,
    )
    try:
        proof = find_ownership_proof(context.actor, repository, evidence, context.at)
    except IssuerUnavailable as error:
        raise ProblemError("unavailable", str(error), headers={"Retry-After": "5"}) from error

    def bind(tx: Session) -> None:
        issuer = call.settings.access.oidc_issuer
        require_right_to_bind(tx, context.actor, project.id, repository, proof, issuer, context.at)
        basis = proof.basis if proof else "bound before"
        repository_bindings.bind_repository(tx, context, project, repository, basis)

    call.group_commit.submit(bind)
    return Reply(_build_repository_payload(repository))


def unbind_repository(call: Call) -> Reply:
    if not call.group_commit.submit(
        lambda tx: repository_bindings.unbind_repository(tx, call.audit_context, call.required_project)
    ):
        raise ProblemError("not-found", NOT_BOUND)
    return Reply(None)


def _build_repository_payload(repository: BoundRepository) -> RepositoryBindingShape:
    return RepositoryBindingShape(
        repository=repository.slug,
        repository_id=repository.repository_id,
        owner_id=repository.owner_id,
        workflow=repository.workflow,
        environment=repository.environment,
        refs=repository.history_refs,
    )


OPERATIONS = (
    Operation(
        "exchange_token",
        "POST",
        "/oidc/token",
        AccessRequirement.PUBLIC,
        exchange_oidc_token,
        "Exchange the OIDC token of a GitHub Actions job for an upload token",
        body=IdTokenExchange,
        answers={201: CreatedJobToken},
        serves_unknown=True,
    ),
    Operation(
        "get_repository_binding",
        "GET",
        f"{PROJECT_RULE}/repository",
        AccessRequirement.ADMIN,
        get_repository_binding,
        "The repository whose jobs may upload",
        answers={200: RepositoryBindingShape},
    ),
    Operation(
        "bind_repository",
        "PUT",
        f"{PROJECT_RULE}/repository",
        AccessRequirement.ADMIN,
        bind_repository,
        "Let the jobs of a repository upload, replacing the previous repository",
        body=NewRepositoryBinding,
        answers={200: RepositoryBindingShape},
    ),
    Operation(
        "unbind_repository",
        "DELETE",
        f"{PROJECT_RULE}/repository",
        AccessRequirement.ADMIN,
        unbind_repository,
        "Let no jobs upload any more, and revoke their tokens",
        answers={204: None},
    ),
)
