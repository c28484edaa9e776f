"""Tokens, members and the audit log as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from perfci.net.shapes import Asked, Name, Page, Shape
from perfci.net.shapes.project_tables import ProjectTablesShape
from perfci.net.shapes.runs import Visibility

ScopeWord = Literal["results:read", "results:write", "admin"]
RoleWord = Literal["reader", "sheriff", "admin"]


class TokenShape(Shape):
    """Everything about a token but the token; ``uid`` names it."""

    uid: str
    name: str
    last4: str
    scopes: tuple[ScopeWord, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class TokenPage(Page):
    items: tuple[TokenShape, ...]


class NewToken(Asked):
    name: Name
    scopes: Annotated[tuple[ScopeWord, ...], Field(min_length=1, max_length=3)]
    days: Annotated[int, Field(ge=1, le=365)] = 90


class TokenMade(Shape):
    """``text`` is the token itself: this answer is the only one that ever holds it."""

    token: TokenShape
    text: str


class MemberShape(Shape):
    """``member`` is 'github/583231' or 'proxy/ada'."""

    member: str
    name: str
    role: RoleWord


class MemberPage(Page):
    items: tuple[MemberShape, ...]


class NewRole(Asked):
    role: RoleWord
    name: Name | None = None


class ProjectChange(Asked):
    """What is left out stays as it is; ``settings`` are all tables of the project at once, ``{}`` takes them away."""

    visibility: Visibility | None = None
    archived: bool | None = None
    repository: Annotated[str, Field(max_length=200, pattern=r"^([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)?$")] | None = None
    settings: ProjectTablesShape | None = None


class AuditShape(Shape):
    """Who changed what and when; ``actor`` is 'token:UID', 'user:github/583231', 'github-repository/NUMBER', 'local'
    or 'perfci'.
    """

    at: datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    request: str


class AuditPage(Page):
    items: tuple[AuditShape, ...]
