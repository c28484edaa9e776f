"""Prove that whoever binds a project to a repository may speak for that repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.auth.github_job_authorization import (
    BASELINE_EVENTS,
    ExpectedIssuer,
    JobClaims,
    KeyLookup,
    verify_oidc_token,
)
from perfci.auth.permissions import AccessDenied, AccessRequirement, Actor, decide_access
from perfci.service.accounts.job_tokens import mark_identity_token_used
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository

FindAdministeredRepository = Callable[[str], tuple[int, int] | None]
"""Finds the numbers of a repository and its owner where the caller is logged in as an admin of it."""

NO_PROOF = (
    "Nothing shows that you may speak for {}: bind it in a job of it, whose identity token proves that "
    "(`perfci project bind --server URL`, with `permissions: id-token: write`), log in by GitHub as an "
    "admin of a public repository, or ask an admin of all projects."
)
OTHER_REPOSITORY = (
    "The token is of a job of {}, and the project would be bound to {}: bind it in a job of that."
)
OTHER_EVENT = (
    "The token is of a job that {} started: a repository is bound by a job of push, schedule or "
    "workflow_dispatch, which nobody without write access starts."
)
BOUND_ELSEWHERE = (
    "Another project of this server is bound to {} already, and would share its pull requests: "
    "only an admin of all projects may bind it to a second one."
)


@dataclass(frozen=True, slots=True)
class OwnershipProof:
    """What shows that the actor may bind a repository; ``claims`` are those of a job, where it is one."""

    basis: str
    claims: JobClaims | None = None


@dataclass(frozen=True, slots=True)
class OwnershipEvidence:
    """What a caller offers as proof: the token of a job, and whether GitHub calls him an admin."""

    job_token: str
    expected_issuer: Callable[[], ExpectedIssuer]
    find_key: KeyLookup
    find_administered: FindAdministeredRepository


def find_ownership_proof(
    actor: Actor, repository: BoundRepository, evidence: OwnershipEvidence, now: datetime
) -> OwnershipProof | None:
    """Return what proves the ownership, None without any; raise where a token proves something else."""
    if is_server_admin(actor):
        return OwnershipProof("server admin")
    numbers = (repository.repository_id, repository.owner_id)
    if evidence.job_token:
        claims = verify_oidc_token(evidence.job_token, evidence.expected_issuer(), evidence.find_key, now)
        if (int(claims.repository_id), int(claims.repository_owner_id)) != numbers:
            raise AccessDenied(403, OTHER_REPOSITORY.format(claims.repository, repository.slug))
        if claims.event_name not in BASELINE_EVENTS:
            raise AccessDenied(403, OTHER_EVENT.format(claims.event_name))
        return OwnershipProof("job", claims)
    if evidence.find_administered(repository.slug) == numbers:
        return OwnershipProof("login")
    return None


def require_right_to_bind(
    tx: Session,
    actor: Actor,
    project_id: int,
    repository: BoundRepository,
    proof: OwnershipProof | None,
    issuer: str,
    now: datetime,
) -> None:
    """Refuse a binding that nothing proves, or a second one; what is bound already needs no new proof."""
    if is_server_admin(actor):
        return
    before = github_bindings.find_repository_of_project(tx, project_id)
    numbers = (repository.repository_id, repository.owner_id)
    if before is not None and (before.repository_id, before.owner_id) == numbers:
        return
    if proof is None:
        raise AccessDenied(403, NO_PROOF.format(repository.slug))
    if github_bindings.load_bindings_of_repository(tx, repository.repository_id):
        raise AccessDenied(403, BOUND_ELSEWHERE.format(repository.slug))
    if proof.claims is not None:
        mark_identity_token_used(tx, proof.claims, issuer, now)


def is_server_admin(actor: Actor) -> bool:
    """Whether an actor administers all projects."""
    return decide_access(actor, None, AccessRequirement.SERVER).allowed
