"""Access control: one table of requirements, and one function that decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, Protocol

from perfci.auth.job_grants import JobGrant
from perfci.model import PerfciError

EVERY_PROJECT_ID: Final = -1
"""The project id of a membership or a token that holds for all projects, as the store spells "none"."""


class AccessRequirement(StrEnum):
    """The access that an operation requires."""

    PUBLIC = "public"  # anybody, always
    READ = "read"  # anybody for a public project, its members and tokens for a private one
    WRITE_RESULTS = "write_results"
    TRIAGE = "triage"
    ADMIN = "admin"
    SERVER = "server"  # an admin of all projects


class ProjectRole(StrEnum):
    """The role of a user in a project; each includes the rights of the one before."""

    READER = "reader"
    SHERIFF = "sheriff"
    ADMIN = "admin"


RANKS = {role: rank for rank, role in enumerate(ProjectRole)}
"""Roles ordered by their rights."""


class Scope(StrEnum):
    """The purpose of a token; ``admin`` includes the others."""

    READ = "results:read"
    WRITE = "results:write"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)
REQUIRED_ROLE: Mapping[AccessRequirement, ProjectRole] = MappingProxyType(
    {
        AccessRequirement.READ: ProjectRole.READER,
        AccessRequirement.WRITE_RESULTS: ProjectRole.ADMIN,
        AccessRequirement.TRIAGE: ProjectRole.SHERIFF,
        AccessRequirement.ADMIN: ProjectRole.ADMIN,
        AccessRequirement.SERVER: ProjectRole.ADMIN,
    }
)
REQUIRED_SCOPE: Mapping[AccessRequirement, Scope] = MappingProxyType(
    {
        AccessRequirement.READ: Scope.READ,
        AccessRequirement.WRITE_RESULTS: Scope.WRITE,
        AccessRequirement.TRIAGE: Scope.ADMIN,
        AccessRequirement.ADMIN: Scope.ADMIN,
        AccessRequirement.SERVER: Scope.ADMIN,
    }
)

NOT_FOUND = "Not found, or you may not see it."
"""Message for a project that does not exist or that the caller may not know of."""
SIGN_IN = "This needs authentication: send a bearer token, or log in."


class ProjectAccess(Protocol):
    """The fields of a project that decide access; ``store.projects.Project`` has them."""

    @property
    def id(self) -> int:
        """The row id of the project."""

    @property
    def visibility(self) -> str:
        """Whether the project is public or private."""

    @property
    def archived(self) -> bool:
        """Whether the project is archived."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller: anonymous, a user, a token, or the local process.

    ``name`` is the one in the audit log ('token:ab12cd34ef56', 'user:github/123', 'local'); ``projects``
    holds the roles by project id, ``EVERY_PROJECT_ID`` for all; None stands for an admin of everything.
    """

    kind: Literal["anonymous", "user", "token", "local"]
    name: str
    projects: Mapping[int, ProjectRole] | None = field(default_factory=dict)
    scopes: frozenset[Scope] = ALL_SCOPES
    display_name: str = ""  # how pages call a person
    grant: JobGrant | None = None  # what the token of a job of a CI system is good for

    def role_in_project(self, project_id: int) -> ProjectRole | None:
        """Return the role of the actor in a project."""
        if self.projects is None:
            return ProjectRole.ADMIN
        held = [role for place in (project_id, EVERY_PROJECT_ID) if (role := self.projects.get(place))]
        return max(held, key=RANKS.__getitem__, default=None)

    def has_scope(self, scope: Scope) -> bool:
        """Whether the actor has a scope; ``admin`` includes all others."""
        return bool(self.scopes & {scope, Scope.ADMIN})

    @property
    def visibility_cache_key(self) -> str:
        """A key that is equal for callers with the same view; it is part of every ETag."""
        if self.projects is None:
            seen = "*"
        else:
            seen = ",".join(f"{place}={role}" for place, role in sorted(self.projects.items()))
        return f"{self.kind}:{seen}:{','.join(sorted(self.scopes))}"


ANONYMOUS = Actor("anonymous", "", {}, frozenset({Scope.READ}))
LOCAL = Actor("local", "local", None)
"""The local user of a server that listens on loopback only."""
READ_ONLY_LOCAL = Actor("local", "local", None, frozenset({Scope.READ}))
"""The local user of a read-only server."""


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The outcome of an access check, with the HTTP status of a refusal."""

    allowed: bool
    status: int = 200
    reason: str = ""


class AccessDenied(PerfciError):
    """An error for a caller whose credentials or request are invalid; ``status`` is 401 or 403."""

    def __init__(self, status: Literal[401, 403], reason: str) -> None:
        super().__init__(reason)
        self.status = status


ALLOWED = AccessDecision(True)


def decide_access(
    actor: Actor, project: ProjectAccess | None, requirement: AccessRequirement
) -> AccessDecision:
    """Decide whether an actor may act; ``project`` is None where none exists, which answers as a private
    one.

    An outsider learns nothing of a private project: 404 for a read, and 401 (before the project is
    considered) for what needs a login.
    """
    if requirement is AccessRequirement.PUBLIC:
        return ALLOWED
    if actor.kind == "anonymous" and requirement is not AccessRequirement.READ:
        return AccessDecision(False, 401, SIGN_IN)
    if requirement is AccessRequirement.SERVER:
        role = actor.role_in_project(EVERY_PROJECT_ID)
    elif project is None:
        return AccessDecision(False, 404, NOT_FOUND)
    else:
        role = actor.role_in_project(project.id)
        if project.visibility == "public" and requirement is AccessRequirement.READ:
            return ALLOWED
        if project.visibility != "public" and role is None:
            return AccessDecision(False, 404, NOT_FOUND)
    if role is None or RANKS[role] < RANKS[REQUIRED_ROLE[requirement]]:
        needed = REQUIRED_ROLE[requirement]
        return AccessDecision(False, 403, f"This needs the role {needed}; you have {role or 'none here'}.")
    if not actor.has_scope(REQUIRED_SCOPE[requirement]):
        return _missing_scope(actor, REQUIRED_SCOPE[requirement])
    changes_results = requirement in (AccessRequirement.WRITE_RESULTS, AccessRequirement.TRIAGE)
    if changes_results and project is not None and project.archived:
        return AccessDecision(False, 403, "This project is archived and read-only.")
    return ALLOWED


def decide_access_before_body(actor: Actor, requirement: AccessRequirement) -> AccessDecision:
    """Decide what no project changes, before a body that names the project is read."""
    if requirement in (AccessRequirement.PUBLIC, AccessRequirement.SERVER):
        return decide_access(actor, None, requirement)
    if actor.kind == "anonymous" and requirement is not AccessRequirement.READ:
        return AccessDecision(False, 401, SIGN_IN)
    scope = REQUIRED_SCOPE[requirement]
    return ALLOWED if actor.has_scope(scope) else _missing_scope(actor, scope)


def can_read(actor: Actor, project: ProjectAccess) -> bool:
    """Whether an actor may read a project."""
    return decide_access(actor, project, AccessRequirement.READ).allowed


def can_grant_scope(role: ProjectRole | None, scope: Scope) -> bool:
    """Whether a role may create a token with a scope: no token may do more than its creator."""
    least = ProjectRole.READER if scope is Scope.READ else ProjectRole.ADMIN
    return role is not None and RANKS[role] >= RANKS[least]


def _missing_scope(actor: Actor, scope: Scope) -> AccessDecision:
    if actor.kind == "local":
        return AccessDecision(False, 403, "This server is read-only.")
    held = ", ".join(sorted(actor.scopes)) or "none"
    return AccessDecision(False, 403, f"This needs a token of the scope {scope}; yours has {held}.")
