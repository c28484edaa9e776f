"""What a route of the API is. ``table.ALL`` lists them; routing, permissions, OpenAPI and metrics read that table.

A module ``ops_<word>.py`` writes its routes down like this, and ``table.py`` gains one line::

    OPERATIONS = (
        Operation("list_runs", "GET", "/projects/<project:project>/runs", Need.READ, list_runs, "Runs, newest first",
                  query=RunFilter, answers={200: RunPage}, etag=True),
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
    """An answer that is no JSON of ours, sent as it is made."""

    content_type: str


AnswerType = type[BaseModel] | StreamedAnswer | None
"""The shape of an answer; none where there is nothing to say (204)."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One route.

    ``name`` is the operation id, the endpoint, the metric label and the client's method. ``rule`` is below the prefix;
    a rule with ``<project:project>`` is asked only after its project was found and ``need`` decided for it. The name of
    a project may also come with the body: such a handler calls ``call.admit(project)`` itself. ``etag`` answers 304
    before the handler runs, from the version of the project's data. ``revision`` demands ``If-Match: "<number>"`` and
    hands it on as ``call.revision``; the handler raises ``Stale(current)`` where it is not the current one. ``headers``
    are further request headers that the handler reads, by name, with the pattern of their value.
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
