"""What GitHub tells is kept for the projects it concerns, and nothing else is done while GitHub waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.auth.github_jobs import PULL_REQUEST
from perfci.github.accept_comment import asks_to_accept
from perfci.github.shapes import RepositoryRef, WorkflowRun
from perfci.github.webhook_events import Event, IssueCommentEvent, PullRequestEvent, WorkflowRunEvent
from perfci.service.accounts.repository_bindings import follow_name
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import Repository
from perfci.store.jobs import run_events
from perfci.store.jobs.run_events import Told
from perfci.verdicts.expected_change import announcements

BEGUN, ENDED = frozenset({"requested", "in_progress"}), "completed"
ACCEPTED = "accepted"
"""What is kept of a comment on a pull request that accepts something; the others are words of GitHub's."""

MERGED = "merged"
"""What is kept of a pull request that announced something and was merged; GitHub says that it was closed."""


def hear(tx: Session, event: Event | None, delivery: str, now: datetime) -> int:
    """For how many projects something is to be done that was not told before."""
    if isinstance(event, WorkflowRunEvent) and event.installation and _concerns_a_pull_request(event):
        run, place = event.workflow_run, event.repository
        told = Told(delivery, event.installation.id, place.full_name, run.id, event.action)
        return _keep(tx, told, place, lambda bound: is_bound_run(run, bound), now)
    if isinstance(event, IssueCommentEvent) and event.installation and _accepts(event):
        told = Told(delivery, event.installation.id, event.repository.full_name, event.issue.number, ACCEPTED)
        return _keep(tx, told, event.repository, lambda bound: is_bound(event.repository, bound), now)
    if isinstance(event, PullRequestEvent) and event.installation and _announces(event):
        told = Told(delivery, event.installation.id, event.repository.full_name, event.number, MERGED)
        return _keep(tx, told, event.repository, lambda bound: is_bound(event.repository, bound), now)
    return 0


def is_bound_run(run: WorkflowRun, bound: Repository) -> bool:
    """Whether a project was bound to the repository, the owner and the file of a run."""
    return is_bound(run.repository, bound) and bound.workflow in run.files


def is_bound(repository: RepositoryRef, bound: Repository) -> bool:
    """By numbers: one that was renamed is the same, one that changed hands must be bound anew."""
    owner = repository.owner.id if repository.owner else None
    return (repository.id, owner) == (bound.repository_id, bound.owner_id)


def _keep(tx: Session, told: Told, of: RepositoryRef, concerns: Callable[[Repository], bool], now: datetime) -> int:
    bound = [one for one in github_bindings.bindings_to(tx, of.id) if concerns(one.repository)]
    new = [one for one in bound if run_events.add(tx, one.project_id, told, now)]
    for one in new:
        follow_name(tx, one, of.full_name, now, told.delivery)
    return len(new)


def _concerns_a_pull_request(event: WorkflowRunEvent) -> bool:
    return event.workflow_run.event == PULL_REQUEST and event.action in BEGUN | {ENDED}


def _accepts(event: IssueCommentEvent) -> bool:
    return event.issue.pull_request is not None and asks_to_accept(event.comment.body)


def _announces(event: PullRequestEvent) -> bool:
    proposed = event.pull_request
    return event.action == "closed" and proposed.merged_at is not None and bool(announcements(proposed.body or ""))
