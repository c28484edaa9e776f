"""Record the expected changes of a merged pull request for its merge commit."""

from __future__ import annotations

from datetime import datetime

from perfci.auth.permissions import Actor, ProjectRole, Scope
from perfci.github.client import GitHubClient
from perfci.service.audit_context import AuditContext
from perfci.service.expected_changes.read_pulls import fetch_expected_changes_of_merge, is_merged_into
from perfci.service.expected_changes.save_changes import save_expected_changes
from perfci.service.pulls.webhook_receiver import is_bound_repository
from perfci.store import Store
from perfci.store.access.github_bindings import BoundRepository
from perfci.store.jobs.github_events import RunEventPayload
from perfci.store.projects import Project


def record_merged_pull(
    store: Store,
    client: GitHubClient,
    payload: RunEventPayload,
    project: Project,
    bound: BoundRepository,
    now: datetime,
) -> str:
    """Save the current expected changes of a pull request; return why there was nothing to save."""
    pull = client.get_pull(payload.repository, payload.number)
    if pull.base.repo is None or not is_bound_repository(pull.base.repo, bound):
        return "The project is bound to another repository by now."
    if pull.merge_commit_sha is None or not is_merged_into(pull, bound.refs):
        return f"{payload.repository}#{payload.number} is merged into no branch whose history is kept."
    changes = fetch_expected_changes_of_merge(client, payload.repository, pull, pull.merge_commit_sha)
    if not any(change.expected.is_authorized for change in changes):
        return "No expected change by an author with write access."
    with store.begin() as tx:
        save_expected_changes(
            tx, project, changes, AuditContext(_build_actor(project, bound), now, payload.delivery)
        )
    return ""


def _build_actor(project: Project, bound: BoundRepository) -> Actor:
    name = f"github-repository/{bound.repository_id}"
    return Actor("token", name, {project.id: ProjectRole.ADMIN}, frozenset({Scope.WRITE}))
