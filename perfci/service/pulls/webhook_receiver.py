"""Webhook receiver: store GitHub events for the projects they concern, for later processing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.auth.github_job_authorization import PULL_REQUEST
from perfci.github.accept_comment import is_accept_comment
from perfci.github.payloads import RepositoryRef, WorkflowRun
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

MERGED_PULL = "merged"
"""Stored action of merged pull requests with expected changes; GitHub sends "closed"."""


def store_webhook_event(tx: Session, event: WebhookEvent | None, delivery: str, now: datetime) -> int:
    """Store an event; return the number of projects for which it is new."""
    if isinstance(event, WorkflowRunEvent) and event.installation and _is_about_pull(event):
        run, place = event.workflow_run, event.repository
        payload = GitHubEventPayload(delivery, event.installation.id, place.full_name, run.id, event.action)
        return _store_event(tx, payload, place, lambda bound: is_bound_workflow_run(run, bound), now)
    if isinstance(event, IssueCommentEvent) and event.installation and _is_acceptance(event):
        payload = GitHubEventPayload(
            delivery, event.installation.id, event.repository.full_name, event.issue.number, ACCEPT_COMMENT
        )
        return _store_event(
            tx, payload, event.repository, lambda bound: is_same_repository(event.repository, bound), now
        )
    if isinstance(event, PullRequestEvent) and event.installation and _has_expected_changes(event):
        payload = GitHubEventPayload(
            delivery, event.installation.id, event.repository.full_name, event.number, MERGED_PULL
        )
        return _store_event(
            tx, payload, event.repository, lambda bound: is_same_repository(event.repository, bound), now
        )
    return 0


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


def _is_about_pull(event: WorkflowRunEvent) -> bool:
    return event.workflow_run.event == PULL_REQUEST and event.action in STARTED_ACTIONS | {COMPLETED_ACTION}


def _is_acceptance(event: IssueCommentEvent) -> bool:
    return event.issue.pull_request is not None and is_accept_comment(event.comment.body)


def _has_expected_changes(event: PullRequestEvent) -> bool:
    proposed = event.pull_request
    return (
        event.action == "closed"
        and proposed.merged_at is not None
        and bool(parse_expected_changes(proposed.body or ""))
    )
