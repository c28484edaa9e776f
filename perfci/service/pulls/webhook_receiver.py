"""Webhook receiver: store GitHub events for the projects they concern, for later processing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy.orm import Session

from perfci.auth.github_job_authorization import PULL_REQUEST
from perfci.github.accept_comment import is_accept_comment
from perfci.github.order_run import is_order_run
from perfci.github.payloads import InstallationRef, RepositoryRef, WorkflowRun
from perfci.github.run_comment import is_run_comment
from perfci.github.webhook_events import IssueCommentEvent, PullRequestEvent, WebhookEvent, WorkflowRunEvent
from perfci.service.accounts.repository_bindings import update_repository_name
from perfci.service.pulls.parse_pull_description import parse_expected_changes
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository
from perfci.store.jobs import github_events
from perfci.store.jobs.github_events import GitHubEventPayload

STARTED_ACTIONS, COMPLETED_ACTION = frozenset({"requested", "in_progress"}), "completed"
ACCEPT_COMMENT = "accepted"
"""Stored action of acceptance comments; other actions are those of GitHub."""

ORDER_COMMENT, ORDER_LABEL, ORDER_RUN = "ordered", "labeled", "order-run"
"""Stored actions of comments and labels that order a measurement, and of the runs that carry orders out; the
number is that of the comment, of the pull request and of the run.
"""

MERGED_PULL = "merged"
"""Stored action of merged pull requests with expected changes; GitHub sends "closed"."""


JUDGED_UPLOADS = "judged_uploads"
"""Stored action of pull requests whose uploads were judged here; GitHub sends nothing."""

ANSWERED_ORDER = "answered_order"
"""Stored action of pull requests whose order a worker answered; GitHub sends nothing."""


def store_webhook_event(
    tx: Session, event: WebhookEvent | None, delivery: str, now: datetime, order_label: str = ""
) -> int:
    """Store an event; return the number of projects for which it is new.

    ``order_label`` is the label that orders a measurement, empty for none.
    """
    subject = _select_subject(event, order_label)
    if subject is None or subject.installation is None:
        return 0
    payload = GitHubEventPayload(
        delivery, subject.installation.id, subject.repository.full_name, subject.number, subject.action
    )
    return _store_event(tx, payload, subject.repository, subject.concerns, now)


@dataclass(frozen=True, slots=True)
class _Subject:
    """What of an event is kept: a number, what is to be done, and the bindings that it concerns."""

    number: int
    action: str
    repository: RepositoryRef
    installation: InstallationRef | None
    concerns: Callable[[BoundRepository], bool]


def _select_subject(event: WebhookEvent | None, order_label: str) -> _Subject | None:
    if isinstance(event, WorkflowRunEvent):
        run = event.workflow_run
        action = _find_run_action(event)
        concerns = partial(is_bound_workflow_run, run)
        return _Subject(run.id, action, event.repository, event.installation, concerns) if action else None
    if isinstance(event, IssueCommentEvent):
        number, action = _find_comment_action(event)
    elif isinstance(event, PullRequestEvent):
        number, action = event.number, _find_pull_action(event, order_label)
    else:
        return None
    concerns = partial(is_same_repository, event.repository)
    return _Subject(number, action, event.repository, event.installation, concerns) if action else None


def _find_run_action(event: WorkflowRunEvent) -> str:
    if event.action not in STARTED_ACTIONS | {COMPLETED_ACTION}:
        return ""
    if event.workflow_run.event == PULL_REQUEST:
        return event.action
    return ORDER_RUN if is_order_run(event.workflow_run) else ""


def _find_comment_action(event: IssueCommentEvent) -> tuple[int, str]:
    if event.issue.pull_request is None:
        return 0, ""
    if is_accept_comment(event.comment.body):
        return event.issue.number, ACCEPT_COMMENT
    orders = event.action == "created" and is_run_comment(event.comment.body)
    return event.comment.id, ORDER_COMMENT if orders else ""


def _find_pull_action(event: PullRequestEvent, order_label: str) -> str:
    if event.action == "labeled" and order_label and event.label and event.label.name == order_label:
        return ORDER_LABEL
    return MERGED_PULL if _has_expected_changes(event) else ""


def is_bound_workflow_run(run: WorkflowRun, bound: BoundRepository) -> bool:
    """Return whether a binding matches the repository, owner and workflow file of a run."""
    return is_same_repository(run.repository, bound) and bound.workflow in run.workflow_file_paths


def is_same_repository(repository: RepositoryRef, bound: BoundRepository) -> bool:
    """Compare numeric ids: a renamed repository still matches, one with a new owner does not."""
    owner = repository.owner.id if repository.owner else None
    return (repository.id, owner) == (bound.repository_id, bound.owner_id)


def _store_event(
    tx: Session,
    payload: GitHubEventPayload,
    repository: RepositoryRef,
    concerns: Callable[[BoundRepository], bool],
    now: datetime,
) -> int:
    bound = [
        binding
        for binding in github_bindings.load_bindings_of_repository(tx, repository.id)
        if concerns(binding.repository)
    ]
    new = [
        binding for binding in bound if github_events.add_github_event(tx, binding.project_id, payload, now)
    ]
    for binding in new:
        update_repository_name(tx, binding, repository.full_name, now, payload.delivery)
    return len(new)


def _has_expected_changes(event: PullRequestEvent) -> bool:
    proposed = event.pull_request
    return (
        event.action == "closed"
        and proposed.merged_at is not None
        and bool(parse_expected_changes(proposed.body or ""))
    )
