"""Tokens, members and the audit log as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from perfci.net.shapes import DisplayName, Page, RequestShape, Shape
from perfci.net.shapes.project_tables import ProjectTablesShape
from perfci.net.shapes.runs import Visibility

ScopeName = Literal["results:read", "results:write", "admin"]
RoleName = Literal["reader", "sheriff", "admin"]


class TokenShape(Shape):
    """Everything about a token but the token; ``uid`` names it."""

    uid: str
    name: str
    last4: str
    scopes: tuple[ScopeName, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class TokenPage(Page):
    items: tuple[TokenShape, ...]


class NewToken(RequestShape):
    name: DisplayName
    scopes: Annotated[tuple[ScopeName, ...], Field(min_length=1, max_length=3)]
    days: Annotated[int, Field(ge=1, le=365)] = 90


class CreatedToken(Shape):
    """``text`` is the token itself: this answer is the only one that ever holds it."""

    token: TokenShape
    secret: str


class ProjectMemberShape(Shape):
    """``member`` is 'github/583231' or 'proxy/ada'."""

    member: str
    name: str
    role: RoleName


class ProjectMemberPage(Page):
    items: tuple[ProjectMemberShape, ...]


class RoleAssignment(RequestShape):
    role: RoleName
    name: DisplayName | None = None


class ProjectPatch(RequestShape):
    """What is left out stays as it is; ``settings`` are all tables of the project at once, ``{}`` takes them
    away.
    """

    visibility: Visibility | None = None
    archived: bool | None = None
    repository: (
        Annotated[str, Field(max_length=200, pattern=r"^([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)?$")] | None
    ) = None
    settings: ProjectTablesShape | None = None


class AuditEntryShape(Shape):
    """Who changed what and when; ``actor`` is 'token:UID', 'user:github/583231', 'github-repository/NUMBER',
    'local' or 'perfci'.
    """

    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    request_id: str


class AuditEntryPage(Page):
    items: tuple[AuditEntryShape, ...]
