"""A pull request that announced something was merged: what of that counts is kept for the commit that it became."""

from __future__ import annotations

from datetime import datetime

from perfci.auth.permissions import Actor, Role, Scope
from perfci.github.client import Client
from perfci.service.audit_context import AuditContext
from perfci.service.expected_changes.read_pulls import arrived_with, is_merged_into
from perfci.service.expected_changes.save_changes import arrive
from perfci.service.pulls.webhook_receiver import is_bound
from perfci.store import Store
from perfci.store.access.github_bindings import Repository
from perfci.store.jobs.run_events import Told
from perfci.store.projects import Project


def take_announced(store: Store, client: Client, told: Told, of: Project, bound: Repository, now: datetime) -> str:
    """Keep what the pull request announces now, and answer why there was nothing to keep."""
    pull = client.pull(told.repository, told.number)
    if pull.base.repo is None or not is_bound(pull.base.repo, bound):
        return "The project is bound to another repository by now."
    if pull.merge_commit_sha is None or not is_merged_into(pull, bound.refs):
        return f"{told.repository}#{told.number} is merged into no branch whose history is kept."
    arrived = arrived_with(client, told.repository, pull, pull.merge_commit_sha)
    if not any(one.announcement.counts for one in arrived):
        return "Nothing was announced by somebody who may write to the repository."
    with store.begin() as tx:
        arrive(tx, of, arrived, AuditContext(_actor(of, bound), now, told.delivery))
    return ""


def _actor(of: Project, bound: Repository) -> Actor:
    name = f"github-repository/{bound.repository_id}"
    return Actor("token", name, {of.id: Role.ADMIN}, frozenset({Scope.WRITE}))
