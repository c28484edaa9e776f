"""The description of one route of the API, from which routing, permissions, OpenAPI and metrics derive.

A module ``operations/<subject>.py`` lists its routes like this, and ``operation_table.py`` gains one line::

    OPERATIONS = (
        Operation("list_runs", "GET", f"{PROJECT_RULE}/runs", AccessRequirement.READ, list_runs,
                  "Runs, newest first", query=RunQuery, answers={200: RunPage}, etag=True),
    )

    def list_runs(call: Call) -> Reply: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel

from perfci.auth.permissions import AccessRequirement
from perfci_web.api.calls import Call, Reply

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
    each with the pattern of its value.
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

    @property
    def path(self) -> str:
        return API_PREFIX + self.rule

    @property
    def is_project_scoped(self) -> bool:
        return "<project:project>" in self.rule
