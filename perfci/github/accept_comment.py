"""Find the comment that accepts the regressions of a commit, written by somebody with write access."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from perfci.github.api_operations import require_full_sha
from perfci.github.client import GitHubClient
from perfci.github.errors import GitHubError

ACCEPT_COMMAND = "/perfci accept"
ACCEPT_PATTERN = re.compile(re.escape(ACCEPT_COMMAND) + r" +([0-9a-f]{10,64}) +(\S.{,499})")
"""The first line of a comment: which commit, and why. What is pushed later is accepted anew, or not."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    login: str
    reason: str

    def __str__(self) -> str:
        return f"{self.login}: {self.reason}"


def is_accept_comment(body: str) -> bool:
    return ACCEPT_PATTERN.match(body) is not None


def format_accept_command(head: str) -> str:
    """The accept command for a commit, without the reason that follows it."""
    return f"{ACCEPT_COMMAND} {require_full_sha(head)[:10]}"


def find_acceptance(client: GitHubClient, repository: str, pull: int, head: str) -> Acceptance | None:
    """Find the newest accept command for this commit by a user with write access."""
    head = require_full_sha(head)
    has_write_access = cache(lambda login: has_repository_write_access(client, repository, login))
    # GitHub lists the comments of an issue oldest first, and in no other order.
    for comment in reversed(list(client.list_comments(repository, pull))):
        match = ACCEPT_PATTERN.match(comment.body)
        if match is None or comment.user is None or not head.startswith(match[1]):
            continue
        if has_write_access(comment.user.login):
            return Acceptance(comment.user.login, match[2].strip())
    return None


def has_repository_write_access(client: GitHubClient, repository: str, login: str) -> bool:
    """Whether a user may write to a repository; False for users unknown to GitHub, such as some Apps."""
    try:
        return client.get_user_permission(repository, login).may_write
    except GitHubError as error:
        if error.status == 404:
            return False
        raise
