"""What pull requests announced, as GitHub tells it, and of which commits that holds once they are merged."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from perfci.github import accept_comment
from perfci.github.client import Client
from perfci.github.shapes import PullRequest
from perfci.verdicts.expected_change import Announcement, announcements
from perfci.verdicts.incidents.expected_change_match import Arrived


def announced_by(client: Client, repository: str, proposed: PullRequest) -> list[Announcement]:
    """The announcements in a description count where its author may write to the repository."""
    found = announcements(proposed.body or "")
    if found and not (proposed.user and accept_comment.may_write(client, repository, proposed.user.login)):
        return [replace(one, counts=False) for one in found]
    return found


def brought_by(client: Client, repository: str, commits: Iterable[str], ref: str, sha: str) -> list[Arrived]:
    """What was announced by the pull requests that brought commits to a branch with one push.

    All of it is told of ``sha``, the commit that such a push is measured at.
    """
    found = (one for commit in commits for one in client.pulls_of_commit(repository, commit))
    pulls = {one.number: one for one in found if is_merged_into(one, [ref])}
    return [arrived for pull in pulls.values() for arrived in arrived_with(client, repository, pull, sha)]


def is_merged_into(pull: PullRequest, refs: Collection[str]) -> bool:
    return pull.merged_at is not None and f"refs/heads/{pull.base.ref}" in refs


def arrived_with(client: Client, repository: str, pull: PullRequest, sha: str) -> list[Arrived]:
    """What a pull request announced of the commit that it became."""
    found = announced_by(client, repository, pull)
    return [Arrived(sha, one, f"#{pull.number}", pull.merged_at) for one in found]
