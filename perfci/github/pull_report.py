"""What a pull request is to show of its verdict; the texts come in ready, and within GitHub's limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from perfci.github.operations import full, place
from perfci.model import PerfciError

MOST_SUMMARY = 65_535
MOST_COMMENT = 65_536
MOST_DESCRIPTION = 140
"""Characters of a commit status's one line; GitHub takes no more and cuts nothing."""

State = Literal["queued", "in_progress", "completed"]
Conclusion = Literal["success", "neutral", "failure", "timed_out", "cancelled", "skipped"]
StatusState = Literal["success", "failure", "error"]


class Overtaken(PerfciError):
    """There is nothing to tell any more: the pull request has other commits by now, is closed, or its fork is gone."""


@dataclass(frozen=True, slots=True)
class Author:
    """Under whose login comments appear, and the number of the App that checks belong to where it is known."""

    login: str
    app: int | None = None


ACTIONS = Author("github-actions[bot]")
"""The token of a workflow."""


@dataclass(frozen=True, slots=True)
class Check:
    """``name`` and ``external_id`` stay the same for a project whatever measured it: a required check is known by name.

    ``status`` and ``line`` are what a commit status in its place says, where that is not what the check says: a
    measurement that broke is neutral as a check and an error as a status, and advice says that it is no more.
    """

    name: str
    external_id: str
    state: State
    title: str
    summary: str
    conclusion: Conclusion | None = None
    details_url: str = ""
    status: StatusState | None = None
    line: str = ""

    def __post_init__(self) -> None:
        if (self.state == "completed") != (self.conclusion is not None):
            raise PerfciError("A check has a conclusion when it is completed, and only then.")
        if not self.title or not self.external_id or not self.name:
            raise PerfciError("A check has a title, a name and an id of its own.")
        _short_enough(self.summary, MOST_SUMMARY, "The summary of a check")
        _short_enough(self.line, MOST_DESCRIPTION, "The line of a commit status")


@dataclass(frozen=True, slots=True)
class PullReport:
    """``key`` names the project, so that two projects of a repository have a comment each.

    Without ``opens_comment`` a comment that is there is brought up to date and none is written for the first time.
    """

    repository: str
    pull: int
    head_sha: str
    key: str
    comment: str
    check: Check
    opens_comment: bool = True

    def __post_init__(self) -> None:
        place(self.repository)
        full(self.head_sha)
        _short_enough(self.comment_body, MOST_COMMENT, "The comment, with its hidden mark,")

    @property
    def comment_body(self) -> str:
        return f"{mark(self.key)}\n{about(self.head_sha)}\n{self.comment}"


def mark(key: str) -> str:
    """The first line of our comment; nothing in a key can end it early."""
    return f"<!-- perfci report {quote(key, safe='/').replace('-', '%2D')} -->"


def about(sha: str) -> str:
    """The second line: which commit it tells of."""
    return f"<!-- at {full(sha)} -->"


def _short_enough(text: str, most: int, what: str) -> None:
    if len(text) > most:
        raise PerfciError(f"{what} has {len(text):,} characters; GitHub takes {most:,}.")
