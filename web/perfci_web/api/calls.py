"""The value a handler of the API receives, and the value it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from perfci.auth.oidc import KeyLookup
from perfci.auth.permissions import AccessRequirement, Actor
from perfci.config import Settings
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.writes.group_commit import GroupCommitter

if TYPE_CHECKING:
    from perfci_web.api.operation import Operation


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was authenticated, authorized and parsed.

    ``project`` is the one in the path. ``query`` and ``body`` are of the operation's classes; ``raw_body``
    is the body after inflating. Reads open ``store.read()``; writes go through
    ``group_commit.submit(job)``, which returns after the commit. ``require_project`` returns a project that
    the body names, or refuses the request as if the path had named it. ``settings`` are the server's,
    before the tables of a project. ``find_signing_key`` looks up a public key of the issuer of job tokens.
    ``operations`` is the table of the whole API.
    """

    store: Store
    group_commit: GroupCommitter
    actor: Actor
    project: Project | None
    path: Mapping[str, Any]
    query: Any
    body: Any
    now: datetime
    request_id: str
    require_project: Callable[[str, AccessRequirement], Project]
    raw_body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0
    settings: Settings = field(default_factory=Settings)
    find_signing_key: KeyLookup = lambda kid: None
    operations: tuple[Operation, ...] = ()

    @property
    def required_project(self) -> Project:
        """The project of a rule that names one."""
        assert self.project is not None
        return self.project

    @property
    def audit_context(self) -> AuditContext:
        return AuditContext(self.actor, self.now, self.request_id)


@dataclass(frozen=True, slots=True)
class Reply:
    """A shape is sent as JSON, bytes unchanged, an iterator as a stream; None becomes 204."""

    value: BaseModel | bytes | Iterator[bytes] | None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
