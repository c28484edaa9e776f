"""A comment that accepts what a commit costs, of somebody who may write to the repository."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from perfci.github.client import Client
from perfci.github.errors import Refused
from perfci.github.operations import full
from perfci.github.shapes import Comment

WORDS = "/perfci accept"
LINE = re.compile(re.escape(WORDS) + r" +([0-9a-f]{10,64}) +(\S.{,499})")
"""The first line of a comment: which commit, and why. What is pushed later is accepted anew, or not."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    login: str
    reason: str

    def __str__(self) -> str:
        return f"{self.login}: {self.reason}"


def asks_to_accept(body: str) -> bool:
    return LINE.match(body) is not None


def command(head: str) -> str:
    """What to write, before the reason."""
    return f"{WORDS} {full(head)[:10]}"


def acceptance(client: Client, repository: str, pull: int, head: str) -> Acceptance | None:
    """The newest that stands: a comment that was deleted accepts nothing, nor does one about another commit."""
    known = cache(lambda login: may_write(client, repository, login))
    for comment in reversed(list(client.comments(repository, pull))):
        if (found := _accepting(comment, full(head), known)) is not None:
            return found
    return None


def _accepting(comment: Comment, head: str, trusts: Callable[[str], bool]) -> Acceptance | None:
    found = LINE.match(comment.body)
    if found is None or comment.user is None or not head.startswith(found[1]):
        return None
    return Acceptance(comment.user.login, found[2].strip()) if trusts(comment.user.login) else None


def may_write(client: Client, repository: str, login: str) -> bool:
    """GitHub does not know every login that may comment, Apps for one."""
    try:
        return client.permission(repository, login).may_write
    except Refused as error:
        if error.status == 404:
            return False
        raise
