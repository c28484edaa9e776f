"""An operation of the API: its description, the call that its handler receives, and the reply it returns.

Routing, permissions, OpenAPI and metrics derive from the description. A module ``operations/<subject>.py``
lists its operations like this, and ``operation_table.py`` gains one line::

    OPERATIONS = (
        Operation("list_runs", "GET", f"{PROJECT_RULE}/runs", AccessRequirement.READ, list_runs,
                  "Runs, newest first", query=RunQuery, answers={200: RunPage}, etag=True),
    )

    def list_runs(call: Call) -> Reply: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from perfci.auth.github_job_authorization import KeyLookup
from perfci.auth.permissions import AccessRequirement
from perfci.config import Settings
from perfci.service.accounts.repository_ownership import FindAdministeredRepository
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.projects import Project
from perfci.store.writes.group_commit import GroupCommitter

API_PREFIX = "/api/v1"
PROJECT_RULE = "/projects/<project:project>"

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer of another content type, which may be streamed."""

    content_type: str


AnswerType = type[BaseModel] | StreamedAnswer | None
"""The shape of an answer; None for an empty one (204)."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One route.

    ``name`` is the operation id, the endpoint and the metric label. ``rule`` is the path below the prefix;
    where it contains ``<project:project>``, the project is looked up and ``need`` is checked against it
    before the handler runs. A handler whose body names the project calls ``call.require_project(slug,
    need)`` itself. ``etag`` answers 304 before the handler runs, from the version of the project's data.
    ``revision`` requires ``If-Match: "<number>"`` and passes it as ``call.revision``; the handler raises
    ``RevisionMismatch(current)`` where it is stale. ``headers`` are further request headers of the handler,
    each with the pattern of its value. ``is_export`` limits how many of its answers are streamed at once, and
    refuses anonymous callers unless ``[access] public_exports`` is set. ``serves_unknown`` answers those as
    well whom a server of mode "local" does not know.
    """

    name: str
    method: Method
    rule: str
    need: AccessRequirement
    handler: Callable[[Call], Reply]
    summary: str
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    answers: Mapping[int, AnswerType] = field(default_factory=dict)
    etag: bool = False
    revision: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    is_export: bool = False
    serves_unknown: bool = False

    @property
    def url_path(self) -> str:
        return API_PREFIX + self.rule


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was authenticated, authorized and parsed.

    ``audit_context`` holds the caller, the time and the id of the request; ``project`` is the one in the
    path. ``query`` and ``body`` are of the operation's classes; ``raw_body`` is the body after inflating.
    Reads open ``store.read()``; writes go through ``group_commit.submit(job)``, which returns after the
    commit. ``require_project`` returns a project that the body names, or refuses the request as if the path
    had named it. ``settings`` are the server's, before the tables of a project. ``find_signing_key`` looks
    up a public key of the issuer of job tokens, ``find_administered_repository`` a repository that the caller
    is logged in to administer. ``secret_key`` encrypts what is stored. ``operations`` is the table of the
    whole API.
    """

    store: Store
    group_commit: GroupCommitter
    audit_context: AuditContext
    project: Project | None
    path: Mapping[str, Any]
    query: Any
    body: Any
    require_project: Callable[[str, AccessRequirement], Project]
    raw_body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0
    settings: Settings = field(default_factory=Settings)
    secret_key: str = field(default="", repr=False)
    find_signing_key: KeyLookup = lambda kid: None
    find_administered_repository: FindAdministeredRepository = lambda slug: None
    operations: tuple[Operation, ...] = ()

    @property
    def required_project(self) -> Project:
        """The project of a rule that names one."""
        assert self.project is not None
        return self.project


@dataclass(frozen=True, slots=True)
class Reply:
    """A shape is sent as JSON, bytes unchanged, an iterator as a stream; None becomes 204."""

    value: BaseModel | bytes | Iterator[bytes] | None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
