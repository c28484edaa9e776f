"""What pull requests announced, as GitHub tells it, and of which commits that holds once they are merged."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from perfci.github import accept_comment
from perfci.github.client import GitHubClient
from perfci.github.shapes import PullRequest
from perfci.verdicts.expected_change import ExpectedChange, parse_expected_changes
from perfci.verdicts.incidents.expected_change_match import MergedExpectedChange


def fetch_expected_changes(client: GitHubClient, repository: str, pull: PullRequest) -> list[ExpectedChange]:
    """The announcements in a description count where its author may write to the repository."""
    changes = parse_expected_changes(pull.body or "")
    if changes and not (pull.user and accept_comment.can_write(client, repository, pull.user.login)):
        return [replace(change, is_authorized=False) for change in changes]
    return changes


def fetch_expected_changes_of_push(
    client: GitHubClient, repository: str, commits: Iterable[str], ref: str, sha: str
) -> list[MergedExpectedChange]:
    """What was announced by the pull requests that brought commits to a branch with one push.

    All of it is told of ``sha``, the commit that such a push is measured at.
    """
    candidates = (pull for commit in commits for pull in client.list_pulls_of_commit(repository, commit))
    pulls = {pull.number: pull for pull in candidates if is_merged_into(pull, [ref])}
    return [
        change
        for pull in pulls.values()
        for change in fetch_expected_changes_of_merge(client, repository, pull, sha)
    ]


def is_merged_into(pull: PullRequest, refs: Collection[str]) -> bool:
    return pull.merged_at is not None and f"refs/heads/{pull.base.ref}" in refs


def fetch_expected_changes_of_merge(
    client: GitHubClient, repository: str, pull: PullRequest, sha: str
) -> list[MergedExpectedChange]:
    """What a pull request announced of the commit that it became."""
    changes = fetch_expected_changes(client, repository, pull)
    return [MergedExpectedChange(sha, change, f"#{pull.number}", pull.merged_at) for change in changes]
