"""What a handler is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from perfci.auth.oidc import KeyLookup
from perfci.auth.permissions import AccessRequirement, Actor
from perfci.config import Settings
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.writes.group_commit import GroupCommitter


@dataclass(frozen=True, slots=True)
class Call:
    """One admitted request.

    ``project`` is the one in the path, found and allowed; ``query`` and ``body`` are of the operation's classes, and
    ``raw`` is the body as it was inflated. Reads open ``store.read()``; writes go through ``group.submit(job)``, which
    returns after the commit. ``admit`` is for a project that the body names: it answers it, or refuses the request as
    the frame would have done. ``settings`` are the server's own; a project's beat them. ``key_of`` tells the public
    keys of who signs the tokens of jobs.
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

    @property
    def required_project(self) -> Project:
        """The project of a rule that names one."""
        assert self.project is not None
        return self.project


@dataclass(frozen=True, slots=True)
class Reply:
    """A shape becomes JSON, bytes are sent as they are, an iterator as it goes; nothing at all is 204."""

    value: BaseModel | bytes | Iterator[bytes] | None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
