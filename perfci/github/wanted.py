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


class HeadMoved(PerfciError):
    """The pull request has other commits by now: what was measured is no longer what is proposed."""


@dataclass(frozen=True, slots=True)
class Author:
    """Under whose login comments appear, and the number of the App that checks belong to where it is known."""

    login: str
    app: int | None = None


ACTIONS = Author("github-actions[bot]")
"""The token of a workflow."""


@dataclass(frozen=True, slots=True)
class Check:
    """``external_id`` stays the same for one project and machine class, so that a check is found again by it.

    ``status`` and ``line`` are what a commit status in its place says, where that is not what the check says: a
    measurement that broke is neutral as a check and an error as a status, and advice says that it is no more.
    """

    machine_class: str
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
        if not self.title or not self.external_id or not self.machine_class:
            raise PerfciError("A check has a title, an id of its own and a machine class.")
        _short_enough(self.summary, MOST_SUMMARY, "The summary of a check")
        _short_enough(self.line, MOST_DESCRIPTION, "The line of a commit status")

    @property
    def name(self) -> str:
        return f"perfci/{self.machine_class}"


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
    checks: tuple[Check, ...] = ()
    opens_comment: bool = True

    def __post_init__(self) -> None:
        place(self.repository)
        full(self.head_sha)
        _short_enough(self.comment_body, MOST_COMMENT, "The comment, with its hidden mark,")

    @property
    def mark(self) -> str:
        """The first line of our comment; nothing in a key can end it early."""
        return f"<!-- perfci report {quote(self.key, safe='/').replace('-', '%2D')} -->"

    @property
    def comment_body(self) -> str:
        return f"{self.mark}\n{self.comment}"


def _short_enough(text: str, most: int, what: str) -> None:
    if len(text) > most:
        raise PerfciError(f"{what} has {len(text):,} characters; GitHub takes {most:,}.")
