"""Read the expected changes of pull requests from GitHub."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from perfci.github import accept_comment
from perfci.github.client import GitHubClient
from perfci.github.shapes import PullRequest
from perfci.verdicts.expected_change import ExpectedChange, parse_expected_changes
from perfci.verdicts.incidents.expected_change_match import MergedExpectedChange


def fetch_expected_changes(client: GitHubClient, repository: str, pull: PullRequest) -> list[ExpectedChange]:
    """Fetch the expected changes of a description; unauthorized unless its author has write access."""
    changes = parse_expected_changes(pull.body or "")
    if changes and not (pull.user and accept_comment.can_write(client, repository, pull.user.login)):
        return [replace(change, is_authorized=False) for change in changes]
    return changes


def fetch_expected_changes_of_push(
    client: GitHubClient, repository: str, commits: Iterable[str], ref: str, sha: str
) -> list[MergedExpectedChange]:
    """Fetch the expected changes of the pull requests that one push brought to a branch.

    All of them belong to ``sha``, the commit at which the push is measured.
    """
    candidates = (pull for commit in commits for pull in client.list_pulls_of_commit(repository, commit))
    pulls = {pull.number: pull for pull in candidates if is_merged_into(pull, [ref])}
    return [
        change
        for pull in pulls.values()
        for change in fetch_expected_changes_of_merge(client, repository, pull, sha)
    ]


def is_merged_into(pull: PullRequest, refs: Collection[str]) -> bool:
    """Return whether a pull request was merged into one of these refs."""
    return pull.merged_at is not None and f"refs/heads/{pull.base.ref}" in refs


def fetch_expected_changes_of_merge(
    client: GitHubClient, repository: str, pull: PullRequest, sha: str
) -> list[MergedExpectedChange]:
    """Fetch the expected changes of a merged pull request; they belong to its merge commit ``sha``."""
    changes = fetch_expected_changes(client, repository, pull)
    return [MergedExpectedChange(sha, change, f"#{pull.number}", pull.merged_at) for change in changes]
