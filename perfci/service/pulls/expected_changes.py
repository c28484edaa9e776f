"""Expected changes of pull requests: fetch them from GitHub, and save those of merged ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session as Transaction

from perfci.github import accept_comment
from perfci.github.client import GitHubClient
from perfci.github.payloads import PullRequest
from perfci.service.audit_context import AuditContext
from perfci.service.pulls.parse_pull_description import parse_expected_changes
from perfci.store.incidents import expected_changes_and_muted_benchmarks
from perfci.store.incidents.expected_changes_and_muted_benchmarks import ExpectedChangeRecord
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import Project, mark_projects_changed
from perfci.verdicts.expected_change import ExpectedChange, MergedExpectedChange

AUDIT_ACTION = "expected_change.record"
"""Audit action of saved expected changes."""


def authorize_expected_changes(
    client: GitHubClient, repository: str, pull: PullRequest
) -> list[ExpectedChange]:
    """Parse the description of a pull request; changes are authorized if its author has write access."""
    changes = parse_expected_changes(pull.body or "")
    if changes and not (
        pull.user and accept_comment.has_repository_write_access(client, repository, pull.user.login)
    ):
        return [replace(change, is_authorized=False) for change in changes]
    return changes


def fetch_expected_changes_of_push(
    client: GitHubClient, repository: str, commits: Iterable[str], ref: str, sha: str
) -> list[MergedExpectedChange]:
    """Fetch the expected changes of the pull requests that one push brought to a branch.

    All of them belong to ``sha``, the commit at which the push is measured.
    """
    candidates = (pull for commit in commits for pull in client.list_pulls_of_commit(repository, commit))
    pulls = {pull.number: pull for pull in candidates if is_pull_merged_into(pull, [ref])}
    return [
        change
        for pull in pulls.values()
        for change in build_expected_changes_of_merge(client, repository, pull, sha)
    ]


def is_pull_merged_into(pull: PullRequest, refs: Collection[str]) -> bool:
    """Return whether a pull request was merged into one of these refs."""
    return pull.merged_at is not None and f"refs/heads/{pull.base.ref}" in refs


def build_expected_changes_of_merge(
    client: GitHubClient, repository: str, pull: PullRequest, sha: str
) -> list[MergedExpectedChange]:
    """Build the expected changes of a merged pull request; they belong to its merge commit ``sha``."""
    changes = authorize_expected_changes(client, repository, pull)
    return [MergedExpectedChange(sha, change, f"#{pull.number}", pull.merged_at) for change in changes]


def save_expected_changes(
    tx: Transaction, project: Project, changes: Sequence[MergedExpectedChange], context: AuditContext
) -> int:
    """Save authorized expected changes, audit them and enqueue an evaluation; return how many were new."""
    authorized = [change for change in changes if change.expected.is_authorized]
    records = [
        ExpectedChangeRecord(
            change.sha,
            change.expected.match,
            change.expected.change,
            change.expected.reason,
            change.source,
            change.merged_at,
        )
        for change in authorized
    ]
    added = expected_changes_and_muted_benchmarks.add_expected_changes(
        tx, project.id, records, context.actor.name, context.at
    )
    if added:
        enqueue_work(tx, project.id, "evaluate", ["expected_changes"], context.at)
        sources = sorted({f"{change.source} at {change.sha[:12]}" for change in authorized})
        context.add_audit_entry(tx, AUDIT_ACTION, ", ".join(sources), project.id, {"expected_changes": added})
        mark_projects_changed(tx, [project.id])
    return added
