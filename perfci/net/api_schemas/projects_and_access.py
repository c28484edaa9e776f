"""API schemas of projects, their settings, members, tokens, trusted publishers and audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from perfci.model import MetricClass
from perfci.net.api_schemas import (
    VISIBLE_LINE_PATTERN,
    DisplayName,
    Page,
    RequestShape,
    Shape,
)

PatternText = Annotated[str, Field(min_length=1, max_length=200, pattern=VISIBLE_LINE_PATTERN)]
BarFraction = Annotated[float, Field(ge=0, lt=1)]
NoiseFloorValue = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class JudgeTableShape(RequestShape):
    """What is left out is as ``perfci.toml`` has it where it says nothing."""

    bar: Annotated[float, Field(gt=0, lt=1)] | None = None
    strict: bool | None = None
    min_pairs: Annotated[int, Field(ge=5, le=200)] | None = None
    max_pairs: Annotated[int, Field(ge=5, le=200)] | None = None


class HistoryTableShape(RequestShape):
    pages_per_week: Annotated[int, Field(ge=0, le=1000)] | None = None
    releases: Annotated[str, Field(max_length=100, pattern=VISIBLE_LINE_PATTERN)] | None = None
    canaries: Annotated[tuple[PatternText, ...], Field(max_length=50)] | None = None


AddressText = Annotated[str, Field(max_length=500, pattern=r"^(https?://[^\s]+)?$")]
AddressPatternText = Annotated[str, Field(max_length=500, pattern=r"^((https?://|\{repository\}/)[^\s]+)?$")]


class ForgeTableShape(RequestShape):
    """Where people read the repository; the patterns have {repository}, {sha}, {base}, {head}, {number} and
    {path} in them.
    """

    repository: AddressText | None = None
    kind: Literal["", "github", "gitlab", "bitbucket", "gitea"] | None = None
    commit: AddressPatternText | None = None
    diff: AddressPatternText | None = None
    pull_request: AddressPatternText | None = None
    blame: AddressPatternText | None = None


class PolicyTableShape(RequestShape):
    """``match`` is a regular expression."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    match: PatternText
    bar: BarFraction | None = None
    floor: NoiseFloorValue | None = None
    floor_bytes: NoiseFloorValue | None = None
    metric_class: MetricClass | None = Field(default=None, alias="class")
    judge: bool | None = None


class ProjectTablesShape(RequestShape):
    """A table that is given stands in for the server's whole one; one that is not is the server's."""

    judge: JudgeTableShape | None = None
    history: HistoryTableShape | None = None
    forge: ForgeTableShape | None = None
    policy: Annotated[tuple[PolicyTableShape, ...], Field(max_length=100)] | None = None


Visibility = Literal["public", "private"]


class ProjectShape(Shape):
    """``version`` grows with every change of the project's data, and the ETag of its lists with it."""

    project: str
    visibility: Visibility
    version: int
    archived: bool = False
    settings: ProjectTablesShape = ProjectTablesShape()


class ProjectPage(Page):
    items: tuple[ProjectShape, ...]


class NewProject(RequestShape):
    project: Annotated[str, Field(min_length=1, max_length=200)]
    visibility: Visibility = "private"


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
    """``secret`` is the token itself: this answer is the only one that ever holds it."""

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


GitHubId = Annotated[int, Field(ge=1, lt=10**18)]
ShortText = Annotated[str, Field(max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class RepositoryBindingShape(Shape):
    """What a project is bound to: the numbers are what the repository is, ``repository`` what it was last
    called.
    """

    repository: str
    repository_id: int
    owner_id: int
    workflow: str
    environment: str = ""
    refs: tuple[str, ...]


class NewRepositoryBinding(RequestShape):
    """``workflow`` begins with ``.github/`` where the repository holds it itself; jobs on ``refs`` write
    histories. ``proof`` is the OIDC token of a job of the repository, for the audience of this server: who is
    no admin of all projects proves by it, or by a login of GitHub, that he may speak for the repository.
    """

    repository: ShortText
    repository_id: GitHubId
    owner_id: GitHubId
    workflow: ShortText = ".github/workflows/perf.yml"
    environment: ShortText | None = None
    refs: Annotated[tuple[ShortText, ...], Field(max_length=50)] = ("refs/heads/main",)
    proof: Annotated[str, Field(pattern=r"^[\x21-\x7e]*$")] | None = None


class IdTokenExchange(RequestShape):
    """What GitHub says of a job, signed, for the audience of this server."""

    project: Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]
    token: Annotated[str, Field(min_length=1, pattern=r"^[\x21-\x7e]+$")]


class CreatedJobToken(Shape):
    """``secret`` is the token itself: this answer is the only one that ever holds it."""

    secret: str
    expires_at: datetime
    may_write_history: bool
    """Whether what the job measured may enter a history."""
