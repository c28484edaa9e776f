"""Verify the signature of a GitHub webhook and parse its event."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.github.payloads import (
    Account,
    AppRef,
    CheckRun,
    Comment,
    GitHubNumber,
    InstallationRef,
    Label,
    PullRequest,
    RepositoryRef,
    UnexpectedPayload,
    WorkflowRun,
    parse_payload,
)
from perfci.model import PerfciError


@dataclass(frozen=True, slots=True)
class PullRequestEvent:
    """``label`` is the one that came or went."""

    action: str
    number: GitHubNumber
    pull_request: PullRequest
    repository: RepositoryRef
    sender: Account
    label: Label | None = None
    installation: InstallationRef | None = None


@dataclass(frozen=True, slots=True)
class PushedCommit:
    id: str


@dataclass(frozen=True, slots=True)
class PushEvent:
    """A branch that is deleted ends at a sha of zeros; ``commits`` are those that came, the newest last."""

    ref: str
    before: str
    after: str
    repository: RepositoryRef
    deleted: bool = False
    commits: tuple[PushedCommit, ...] = ()
    installation: InstallationRef | None = None


@dataclass(frozen=True, slots=True)
class WorkflowRunEvent:
    action: str
    workflow_run: WorkflowRun
    repository: RepositoryRef
    installation: InstallationRef | None = None


@dataclass(frozen=True, slots=True)
class RequestedAction:
    identifier: str


@dataclass(frozen=True, slots=True)
class CheckRunEvent:
    """``requested_action`` is the button that somebody pressed on a check."""

    action: str
    check_run: CheckRun
    repository: RepositoryRef
    sender: Account
    requested_action: RequestedAction | None = None
    installation: InstallationRef | None = None


@dataclass(frozen=True, slots=True)
class CheckSuite:
    head_sha: str
    app: AppRef
    head_branch: str | None = None


@dataclass(frozen=True, slots=True)
class CheckSuiteEvent:
    action: str
    check_suite: CheckSuite
    repository: RepositoryRef
    installation: InstallationRef | None = None


@dataclass(frozen=True, slots=True)
class PullRequestLink:
    url: str | None = None


@dataclass(frozen=True, slots=True)
class CommentedIssue:
    """An issue, which is a pull request where it links to one."""

    number: GitHubNumber
    pull_request: PullRequestLink | None = None


@dataclass(frozen=True, slots=True)
class IssueCommentEvent:
    action: str
    issue: CommentedIssue
    comment: Comment
    repository: RepositoryRef
    sender: Account
    installation: InstallationRef | None = None


@dataclass(frozen=True, slots=True)
class WorkflowDispatchEvent:
    """A workflow that somebody started by hand; ``inputs`` are texts, whatever the workflow declares."""

    repository: RepositoryRef
    inputs: dict[str, str | None] | None = None


@dataclass(frozen=True, slots=True)
class Installation:
    id: GitHubNumber
    account: Account


@dataclass(frozen=True, slots=True)
class InstallationEvent:
    action: str
    installation: Installation
    repositories: tuple[RepositoryRef, ...] = ()


@dataclass(frozen=True, slots=True)
class PingEvent:
    zen: str
    hook_id: GitHubNumber


WebhookEvent = (
    PullRequestEvent
    | PushEvent
    | WorkflowRunEvent
    | CheckRunEvent
    | CheckSuiteEvent
    | IssueCommentEvent
    | WorkflowDispatchEvent
    | InstallationEvent
    | PingEvent
)

EVENT_TYPES: dict[str, type[WebhookEvent]] = {
    "pull_request": PullRequestEvent,
    "push": PushEvent,
    "workflow_run": WorkflowRunEvent,
    "check_run": CheckRunEvent,
    "check_suite": CheckSuiteEvent,
    "issue_comment": IssueCommentEvent,
    "workflow_dispatch": WorkflowDispatchEvent,
    "installation": InstallationEvent,
    "ping": PingEvent,
}


def has_valid_signature(body: bytes, header: str, secrets: Sequence[str]) -> bool:
    """Whether ``X-Hub-Signature-256`` belongs to one of the secrets: two are valid during a rotation.

    https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
    """
    signature = header.encode("utf-8", "surrogateescape")
    is_valid = False
    for secret in secrets:
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        # No early return: how long it takes must not tell which secret fits. Everybody knows the empty one.
        if secret and hmac.compare_digest(f"sha256={digest}".encode(), signature):
            is_valid = True
    return is_valid


def parse_webhook_event(kind: str, body: bytes) -> WebhookEvent | None:
    """Parse the event that ``X-GitHub-Event`` names; None for kinds that perfci does not use."""
    shape = EVENT_TYPES.get(kind)
    if shape is None:
        return None
    try:
        return parse_payload(shape, body)
    except UnexpectedPayload as error:
        raise PerfciError(
            f"This {kind} event is not as GitHub sends them ({error}). "
            "The webhook's content type has to be application/json."
        ) from None
