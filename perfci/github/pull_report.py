"""The report on a pull request: a comment and a check, within GitHub's length limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from perfci.github.api_operations import repository_path_parameters, require_full_sha
from perfci.model import PerfciError

MAX_SUMMARY_LENGTH = 65_535
MAX_COMMENT_LENGTH = 65_536
MAX_STATUS_LENGTH = 140
"""Characters of a commit status's one line; GitHub takes no more and cuts nothing."""

CheckState = Literal["queued", "in_progress", "completed"]
CheckConclusion = Literal["success", "neutral", "failure", "timed_out", "cancelled", "skipped"]
StatusState = Literal["success", "failure", "error"]


class ReportOutdated(PerfciError):
    """The report has no place any more: the pull request has other commits or is closed, or its fork is
    gone.
    """


@dataclass(frozen=True, slots=True)
class CommentAuthor:
    """The login that comments appear under, and the id of the App that owns the checks, if known."""

    login: str
    app_id: int | None = None


ACTIONS_AUTHOR = CommentAuthor("github-actions[bot]")
"""The token of a workflow."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """``name`` and ``external_id`` stay the same for a project whatever measured it: a required check is
    known by name.

    ``status`` and ``status_text`` are what a commit status in its place says, where that is not what the
    check says: a measurement that broke is neutral as a check and an error as a status, and advice says
    that it is no more.
    """

    name: str
    external_id: str
    state: CheckState
    title: str
    summary: str
    conclusion: CheckConclusion | None = None
    details_url: str = ""
    status: StatusState | None = None
    status_text: str = ""

    def __post_init__(self) -> None:
        if (self.state == "completed") != (self.conclusion is not None):
            raise PerfciError("A check has a conclusion when it is completed, and only then.")
        if not self.title or not self.external_id or not self.name:
            raise PerfciError("A check has a title, a name and an id of its own.")
        _require_max_length(self.summary, MAX_SUMMARY_LENGTH, "The summary of a check")
        _require_max_length(self.status_text, MAX_STATUS_LENGTH, "The line of a commit status")


@dataclass(frozen=True, slots=True)
class PullReport:
    """``key`` names the project, so that two projects of a repository have a comment each.

    Without ``may_create_comment`` a comment that is there is brought up to date, and none is written for
    the first time.
    """

    repository: str
    pull: int
    head_sha: str
    key: str
    comment: str
    check: CheckReport
    may_create_comment: bool = True

    def __post_init__(self) -> None:
        repository_path_parameters(self.repository)
        require_full_sha(self.head_sha)
        _require_max_length(self.comment_body, MAX_COMMENT_LENGTH, "The comment, with its hidden mark,")

    @property
    def comment_body(self) -> str:
        return f"{format_comment_marker(self.key)}\n{format_commit_marker(self.head_sha)}\n{self.comment}"


def format_comment_marker(key: str) -> str:
    """The first line of our comment; nothing in a key can end it early."""
    # Two hyphens would end an HTML comment.
    return f"<!-- perfci report {quote(key, safe='/').replace('-', '%2D')} -->"


def format_commit_marker(sha: str) -> str:
    """The second line of our comment: the commit that it reports on."""
    return f"<!-- at {require_full_sha(sha)} -->"


def format_reply_marker(event: str) -> str:
    """The first line of our reply to an event, such as a comment that could not be understood."""
    return f"<!-- perfci reply {quote(event, safe='').replace('-', '%2D')} -->"


def _require_max_length(text: str, limit: int, label: str) -> None:
    if len(text) > limit:
        raise PerfciError(f"{label} has {len(text):,} characters; GitHub takes {limit:,}.")
