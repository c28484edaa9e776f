"""Who may do what with a project: one table of needs, and one function that decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, Protocol

from perfci.auth.grants import Grant
from perfci.model import PerfciError

EVERYWHERE: Final = -1
"""The project id of a membership or a token that holds for all projects, as the store spells "none"."""


class Need(StrEnum):
    """What an address asks of the one who calls it."""

    PUBLIC = "public"  # anybody, always
    READ = "read"  # anybody for a public project, its members and tokens for a private one
    WRITE_RESULTS = "write_results"
    TRIAGE = "triage"
    ADMIN = "admin"
    SERVER = "server"  # an admin of all projects


class Role(StrEnum):
    """What a person is in a project; each may do what the one before it may."""

    READER = "reader"
    SHERIFF = "sheriff"
    ADMIN = "admin"


class Scope(StrEnum):
    """What a token was made for; ``admin`` includes the others."""

    READ = "results:read"
    WRITE = "results:write"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)
LEAST_ROLE: Mapping[Need, Role] = MappingProxyType(
    {
        Need.READ: Role.READER,
        Need.WRITE_RESULTS: Role.ADMIN,
        Need.TRIAGE: Role.SHERIFF,
        Need.ADMIN: Role.ADMIN,
        Need.SERVER: Role.ADMIN,
    }
)
SCOPE: Mapping[Need, Scope] = MappingProxyType(
    {
        Need.READ: Scope.READ,
        Need.WRITE_RESULTS: Scope.WRITE,
        Need.TRIAGE: Scope.ADMIN,
        Need.ADMIN: Scope.ADMIN,
        Need.SERVER: Scope.ADMIN,
    }
)

NOT_HERE = "There is nothing of this name here, or it is not yours to see."
"""The same for a project that does not exist and for one the caller may not know of."""
SIGN_IN = "This needs somebody we know: send a bearer token, or log in."


class Seen(Protocol):
    """What of a project decides who may see it; the store's own project fits."""

    @property
    def id(self) -> int: ...
    @property
    def visibility(self) -> str: ...
    @property
    def archived(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks: nobody in particular, a person, a token, or the one at this machine.

    ``name`` is what the audit log keeps ('token:ab12cd34ef56', 'user:github/123', 'local'); ``projects`` are the roles
    by project id, ``EVERYWHERE`` for all; None stands for an admin of everything.
    """

    kind: Literal["anonymous", "user", "token", "local"]
    name: str
    projects: Mapping[int, Role] | None = field(default_factory=dict)
    scopes: frozenset[Scope] = ALL_SCOPES
    shown: str = ""  # how pages call a person
    grant: Grant | None = None  # what the token of a job of a CI system is good for

    def role_in(self, project_id: int) -> Role | None:
        if self.projects is None:
            return Role.ADMIN
        held = [role for place in (project_id, EVERYWHERE) if (role := self.projects.get(place))]
        return max(held, key=list(Role).index, default=None)

    def has_scope(self, scope: Scope) -> bool:
        return bool(self.scopes & {scope, Scope.ADMIN})

    @property
    def sight(self) -> str:
        """What two callers share who see the same: it belongs into every ETag."""
        if self.projects is None:
            seen = "*"
        else:
            seen = ",".join(f"{place}={role}" for place, role in sorted(self.projects.items()))
        return f"{self.kind}:{seen}:{','.join(sorted(self.scopes))}"


ANONYMOUS = Actor("anonymous", "", {}, frozenset({Scope.READ}))
LOCAL = Actor("local", "local", None)
"""The one at this machine, on a server that answers loopback only."""
LOOKER = Actor("local", "local", None, frozenset({Scope.READ}))
"""The same where the server only shows: everything is seen, nothing is changed."""


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    status: int = 200
    reason: str = ""


class Denied(PerfciError):
    """A caller whose credentials or request cannot be accepted, whatever he asks for; ``status`` is 401 or 403."""

    def __init__(self, status: Literal[401, 403], reason: str) -> None:
        super().__init__(reason)
        self.status = status


ALLOWED = Decision(True)


def decide(actor: Actor, project: Seen | None, need: Need) -> Decision:
    """Whether an actor may; ``project`` is None where none of that name exists, which answers as a private one does.

    A stranger to a private project learns nothing of it: 404 where a look would have been asked for, 401 (before the
    project counts) where only somebody known may act.
    """
    if need is Need.PUBLIC:
        return ALLOWED
    if actor.kind == "anonymous" and need is not Need.READ:
        return Decision(False, 401, SIGN_IN)
    if need is Need.SERVER:
        return _held(actor, actor.role_in(EVERYWHERE), need)
    if project is None:
        return Decision(False, 404, NOT_HERE)
    role = actor.role_in(project.id)
    if project.visibility == "public":
        if need is Need.READ:
            return ALLOWED
    elif role is None:
        return Decision(False, 404, NOT_HERE)
    held = _held(actor, role, need)
    if held.allowed and project.archived and need in (Need.WRITE_RESULTS, Need.TRIAGE):
        return Decision(False, 403, "This project is archived: it is shown, and takes nothing new.")
    return held


def decide_before(actor: Actor, need: Need) -> Decision:
    """The part that no project changes, where its name comes with the body: a stranger's body is not even read."""
    if need in (Need.PUBLIC, Need.SERVER):
        return decide(actor, None, need)
    if actor.kind == "anonymous" and need is not Need.READ:
        return Decision(False, 401, SIGN_IN)
    return ALLOWED if actor.has_scope(SCOPE[need]) else Decision(False, 403, _without(actor, SCOPE[need]))


def may_see(actor: Actor, project: Seen) -> bool:
    return decide(actor, project, Need.READ).allowed


def may_grant(role: Role | None, scope: Scope) -> bool:
    """Whether somebody of a role may hold a token of a scope: no token does more than its maker."""
    least = {Scope.READ: Role.READER, Scope.WRITE: Role.ADMIN, Scope.ADMIN: Role.ADMIN}[scope]
    return role is not None and _at_least(role, least)


def _held(actor: Actor, role: Role | None, need: Need) -> Decision:
    if role is None or not _at_least(role, LEAST_ROLE[need]):
        return Decision(False, 403, f"This needs the role {LEAST_ROLE[need]}; you have {role or 'none here'}.")
    if not actor.has_scope(SCOPE[need]):
        return Decision(False, 403, _without(actor, SCOPE[need]))
    return ALLOWED


def _without(actor: Actor, scope: Scope) -> str:
    if actor.kind == "local":
        return "This server only shows; it accepts no changes."
    return f"This needs a token of the scope {scope}; yours has {', '.join(sorted(actor.scopes)) or 'none'}."


def _at_least(role: Role, least: Role) -> bool:
    ranks = list(Role)
    return ranks.index(role) >= ranks.index(least)
