"""Payloads of GitHub's API and webhooks, reduced to the fields that perfci reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

T = TypeVar("T")

GitHubNumber = Annotated[int, Field(ge=0, lt=2**63)]
"""A number of GitHub's: an id, the number of a pull request, a count. It fits a column of the database."""


PULL_COMMENT_URL = re.compile(r"https?://.+/pull/(\d{1,18})#issuecomment-\d+")
"""URL of a comment on a pull request, in contrast to one on an issue."""


class UnexpectedPayload(ValueError):
    """A payload that lacks a field or is no JSON; the message names the place."""


def parse_payload(payload_type: type[T], body: bytes) -> T:
    """Parse JSON into a payload type; an error names the invalid or missing field."""
    try:
        payload: T = _adapter(cast(Any, payload_type)).validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise UnexpectedPayload(f"{at or 'the whole'}: {first['msg'][:200]}") from None
    return payload


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


@dataclass(frozen=True, slots=True)
class Account:
    id: GitHubNumber
    login: str


@dataclass(frozen=True, slots=True)
class RepositoryRef:
    """A repository as other payloads mention it; its id stays when it is renamed or transferred."""

    id: GitHubNumber
    full_name: str
    owner: Account | None = None


@dataclass(frozen=True, slots=True)
class RepositoryDetails:
    id: GitHubNumber
    full_name: str
    owner: Account
    default_branch: str
    private: bool


@dataclass(frozen=True, slots=True)
class Permission:
    """``permission`` is one of admin, write, read and none; a custom role counts as the nearest of them."""

    permission: str

    @property
    def may_write(self) -> bool:
        return self.permission in ("admin", "write")


@dataclass(frozen=True, slots=True)
class Label:
    name: str


@dataclass(frozen=True, slots=True)
class EventLabel:
    name: str | None = None


@dataclass(frozen=True, slots=True)
class CommitRef:
    sha: str


@dataclass(frozen=True, slots=True)
class PullRequestSide:
    """Head or base of a pull request; the repository of a fork that was deleted is none."""

    ref: str
    sha: str
    repo: RepositoryRef | None = None


@dataclass(frozen=True, slots=True)
class PullRequest:
    """Lists say whether it is merged only by ``merged_at``."""

    number: GitHubNumber
    state: str
    head: PullRequestSide
    base: PullRequestSide
    merged_at: datetime | None = None
    updated_at: datetime | None = None
    merge_commit_sha: str | None = None
    labels: tuple[Label, ...] = ()
    body: str | None = None
    user: Account | None = None


@dataclass(frozen=True, slots=True)
class Comment:
    id: GitHubNumber
    html_url: str
    body: str = ""
    user: Account | None = None
    updated_at: datetime | None = None

    @property
    def pull_number(self) -> int | None:
        """The pull request that the comment is on; None for one on an issue."""
        url = PULL_COMMENT_URL.fullmatch(self.html_url)
        return int(url[1]) if url else None


@dataclass(frozen=True, slots=True)
class IssueEvent:
    """Something that happened to an issue or a pull request; ``label`` is the one that came or went."""

    event: str
    actor: Account | None = None
    label: EventLabel | None = None


@dataclass(frozen=True, slots=True)
class MergeBase:
    """What two commits have in common."""

    merge_base_commit: CommitRef


@dataclass(frozen=True, slots=True)
class Issue:
    number: GitHubNumber
    html_url: str
    body: str | None = None


@dataclass(frozen=True, slots=True)
class AppRef:
    id: GitHubNumber


@dataclass(frozen=True, slots=True)
class CheckOutput:
    title: str | None = None
    summary: str | None = None


@dataclass(frozen=True, slots=True)
class CheckRun:
    id: GitHubNumber
    name: str
    head_sha: str
    status: str
    conclusion: str | None = None
    external_id: str | None = None
    details_url: str | None = None
    html_url: str | None = None
    output: CheckOutput = CheckOutput()
    app: AppRef | None = None


@dataclass(frozen=True, slots=True)
class CheckRuns:
    check_runs: tuple[CheckRun, ...]


@dataclass(frozen=True, slots=True)
class CommitStatus:
    state: str
    context: str
    url: str
    description: str | None = None
    target_url: str | None = None


@dataclass(frozen=True, slots=True)
class ReferencedWorkflow:
    path: str


@dataclass(frozen=True, slots=True)
class HeadCommit:
    message: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """``path`` is the workflow's file; ``pull_requests`` of it is left aside because it is empty for forks.

    ``run_started_at`` is when the newest attempt began, ``updated_at`` of a run that is over when it ended.
    """

    id: GitHubNumber
    event: str
    head_sha: str
    repository: RepositoryRef
    head_branch: str | None = None
    head_repository: RepositoryRef | None = None
    path: str = ""
    display_title: str = ""
    status: str | None = None
    conclusion: str | None = None
    run_attempt: GitHubNumber = 1
    html_url: str = ""
    referenced_workflows: tuple[ReferencedWorkflow, ...] | None = None
    head_commit: HeadCommit | None = None
    created_at: datetime | None = None
    run_started_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def head_commit_subject(self) -> str:
        lines = self.head_commit.message.splitlines() if self.head_commit else []
        return lines[0] if lines else ""

    @property
    def workflow_file_paths(self) -> tuple[str, ...]:
        """The workflow files of the run: its own, and reusable ones as OWNER/NAME/PATH, without refs."""
        paths = (self.path, *(workflow.path for workflow in self.referenced_workflows or ()))
        return tuple(path.partition("@")[0] for path in paths)

    @property
    def attempt_page_url(self) -> str:
        """The page of this attempt of the run; empty if GitHub names none."""
        return f"{self.html_url}/attempts/{self.run_attempt}" if self.html_url else ""


@dataclass(frozen=True, slots=True)
class WorkflowRuns:
    workflow_runs: tuple[WorkflowRun, ...]


@dataclass(frozen=True, slots=True)
class ArtifactRun:
    """The workflow run that made an artifact, and its commit."""

    id: GitHubNumber | None = None
    head_sha: str | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    id: GitHubNumber
    name: str
    size_in_bytes: GitHubNumber
    expired: bool
    workflow_run: ArtifactRun | None = None


@dataclass(frozen=True, slots=True)
class Artifacts:
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True)
class AppInfo:
    """GitHub's description leaves open whether an App has a short name."""

    id: GitHubNumber
    slug: str = ""


@dataclass(frozen=True, slots=True)
class InstallationRef:
    id: GitHubNumber


@dataclass(frozen=True, slots=True)
class MintedToken:
    """A token that ``repr`` does not show, neither in a traceback nor in a log."""

    expires_at: datetime
    token: str = field(repr=False)
