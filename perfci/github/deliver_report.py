"""Write a report onto its pull request: a check run or commit status, and one comment, edited in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perfci.github.client import GitHubClient
from perfci.github.errors import GitHubError
from perfci.github.payloads import CheckRun, Comment
from perfci.github.pull_report import (
    MAX_STATUS_LENGTH,
    CheckReport,
    CommentAuthor,
    PullReport,
    ReportOutdated,
    format_comment_marker,
    format_commit_marker,
    format_reply_marker,
)
from perfci.model import PerfciError

STATE_OF_CONCLUSION = {"success": "success", "neutral": "success", "skipped": "success", "failure": "failure"}
"""A status knows neither neutral nor timed out: advice passes with its text, what broke is an error."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """Where the report is, and what had to be written; nothing if it was up to date."""

    comment_url: str
    check_url: str
    written: tuple[str, ...]


def deliver_report(client: GitHubClient, author: CommentAuthor, report: PullReport) -> DeliveryResult:
    """Write the check and the comment of a report, unless the pull request has another head by now.

    The next delivery completes one that failed half way.
    """
    head = client.get_pull(report.repository, report.pull).head.sha
    if head != report.head_sha:
        raise ReportOutdated(
            f"{report.repository}#{report.pull} is at {head[:12]} by now and this report is about "
            f"{report.head_sha[:12]}: nothing was written. The newer commit gets its own report."
        )
    # The check first: it may stop a merge.
    check_url, checked = _publish_check(client, author, report)
    comment_url, commented = _publish_comment(client, author, report)
    return DeliveryResult(comment_url, check_url, (*checked, *commented))


def mark_comment_outdated(
    client: GitHubClient,
    author: CommentAuthor,
    repository: str,
    pull: int,
    key: str,
    head: str,
    mark_outdated: Callable[[str], str],
) -> str:
    """Mark the comment on another commit than the head as outdated, and return its URL; empty without one."""
    for comment in _list_own_comments(client, author, repository, pull, format_comment_marker(key))[:1]:
        # Whoever edits a comment in a browser leaves CRLF in it.
        first, second, text = [*comment.body.replace("\r", "").split("\n", 2), "", ""][:3]
        if second == format_commit_marker(head):
            return ""
        body = f"{first}\n{second}\n{mark_outdated(text)}"
        if not _is_same_text(comment.body, body):
            client.update_comment(repository, comment.id, body)
        return comment.html_url
    return ""


def edit_report_comment(
    client: GitHubClient,
    author: CommentAuthor,
    repository: str,
    pull: int,
    key: str,
    head: str,
    edit: Callable[[str], str],
) -> bool:
    """Edit the text of the comment, or create it where there is none; return whether anything was written."""
    for comment in _list_own_comments(client, author, repository, pull, format_comment_marker(key))[:1]:
        first, second, text = [*comment.body.replace("\r", "").split("\n", 2), "", ""][:3]
        body = f"{first}\n{second}\n{edit(text)}"
        if _is_same_text(comment.body, body):
            return False
        client.update_comment(repository, comment.id, body)
        return True
    text = edit("")
    if text:
        body = f"{format_comment_marker(key)}\n{format_commit_marker(head)}\n{text}"
        _create_own_comment(client, author, repository, pull, body)
    return bool(text)


def post_reply(
    client: GitHubClient, author: CommentAuthor, repository: str, pull: int, event: str, text: str
) -> None:
    """Answer an event, known by its id, in a comment of its own; one that was answered stays as it is."""
    marker = format_reply_marker(event)
    if not _list_own_comments(client, author, repository, pull, marker):
        _create_own_comment(client, author, repository, pull, f"{marker}\n{text}")


def _publish_check(client: GitHubClient, author: CommentAuthor, report: PullReport) -> tuple[str, list[str]]:
    """Return where the check is, and what had to be written for it."""
    try:
        return _publish_check_run(client, author, report)
    except GitHubError as error:
        if not error.lacks_permission:
            raise
        refused = error
    # Only Apps, the token of a workflow among them, may write checks: for others a commit status has to do.
    # https://docs.github.com/rest/checks/runs#create-a-check-run
    try:
        return _publish_status(client, report)
    except GitHubError as error:
        if not error.lacks_permission:
            raise
        raise GitHubError(f"{refused} Without it a commit status would do, but: {error}", 403) from None


def _publish_check_run(
    client: GitHubClient, author: CommentAuthor, report: PullReport
) -> tuple[str, list[str]]:
    check = report.check
    existing = _find_newest_check(client, author, report)
    body = _check_run_body(check)
    if existing is None or (existing.status == "completed" and check.state != "completed"):
        # A check that ended does not begin again: another one of its name takes its place.
        made = client.create_check_run(report.repository, {"head_sha": report.head_sha} | body)
        return made.html_url or "", [check.name]
    output = existing.output
    written = (existing.status, existing.conclusion, output.title, output.summary)
    if written == (check.state, check.conclusion, check.title, check.summary) and (
        check.details_url in ("", existing.details_url)
    ):
        return existing.html_url or "", []
    return client.update_check_run(report.repository, existing.id, body).html_url or "", [check.name]


def _find_newest_check(client: GitHubClient, author: CommentAuthor, report: PullReport) -> CheckRun | None:
    """Ids of checks grow; another App may use our names and ids, and its checks are not ours to change."""
    check = report.check
    ours = [
        candidate
        for candidate in client.list_check_runs(report.repository, report.head_sha, check.name)
        if candidate.name == check.name
        and candidate.external_id == check.external_id
        and candidate.head_sha == report.head_sha
        and (author.app_id is None or (candidate.app is not None and candidate.app.id == author.app_id))
    ]
    return max(ours, key=lambda candidate: candidate.id, default=None)


def _check_run_body(check: CheckReport) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": check.name,
        "external_id": check.external_id,
        "status": check.state,
        "output": {"title": check.title, "summary": check.summary},
    }
    if check.conclusion is not None:
        fields["conclusion"] = check.conclusion
    if check.details_url:
        fields["details_url"] = check.details_url
    return fields


def _publish_status(client: GitHubClient, report: PullReport) -> tuple[str, list[str]]:
    check = report.check
    state = "pending"
    if check.conclusion is not None:
        state = check.status or STATE_OF_CONCLUSION.get(check.conclusion, "error")
    line = check.status_text or check.title
    if len(line) > MAX_STATUS_LENGTH:
        line = line[: MAX_STATUS_LENGTH - 1] + "…"
    # GitHub shows the newest status of a name, whoever set it; they come newest first.
    statuses = client.list_commit_statuses(report.repository, report.head_sha)
    newest = next((status for status in statuses if status.context == check.name), None)
    if newest is not None:
        written = (newest.state, newest.description, newest.target_url or "")
        if written == (state, line, check.details_url):
            return newest.url, []
    fields = {"state": state, "context": check.name, "description": line}
    if check.details_url:
        fields["target_url"] = check.details_url
    made = client.create_commit_status(report.repository, report.head_sha, fields)
    return made.url, [f"{check.name} as a commit status"]


def _publish_comment(
    client: GitHubClient, author: CommentAuthor, report: PullReport
) -> tuple[str, list[str]]:
    """Return where the comment is (nowhere, where there is none), and what had to be written for it."""
    marker = format_comment_marker(report.key)
    ours = _list_own_comments(client, author, report.repository, report.pull, marker)
    if not ours and not report.may_create_comment:
        return "", []
    if not ours:
        made = _create_own_comment(client, author, report.repository, report.pull, report.comment_body)
        return made.html_url, ["comment"]
    # Two senders at once may both have seen no comment and written one each; the first of them stays.
    first, *others = ours
    written = []
    if not _is_same_text(first.body, report.comment_body):
        client.update_comment(report.repository, first.id, report.comment_body)
        written.append("comment")
    for other in others:
        client.delete_comment(report.repository, other.id)
        written.append("second comment deleted")
    return first.html_url, written


def _list_own_comments(
    client: GitHubClient, author: CommentAuthor, repository: str, pull: int, marker: str
) -> list[Comment]:
    """The oldest first. Anybody can type the mark, and text of users may stand in others of ours: it comes
    first.
    """
    comments = [
        comment
        for comment in client.list_comments(repository, pull)
        if comment.body.startswith(marker) and _is_by(comment, author)
    ]
    return sorted(comments, key=lambda comment: comment.id)


def _create_own_comment(
    client: GitHubClient, author: CommentAuthor, repository: str, pull: int, body: str
) -> Comment:
    """Create a comment; delete one that the next run would not recognise, and so would duplicate."""
    made = client.create_comment(repository, pull, body)
    if not _is_by(made, author):
        client.delete_comment(repository, made.id)
        login = made.user.login if made.user else "nobody"
        raise PerfciError(
            f"Comments with this token appear as {login}, and {author.login} was expected: the next run "
            f"would not find its own comment. Name {login} as the author."
        )
    return made


def _is_by(comment: Comment, author: CommentAuthor) -> bool:
    return comment.user is not None and comment.user.login.lower() == author.login.lower()


def _is_same_text(left: str, right: str) -> bool:
    """Line ends, and blanks at the end of a line, are no difference that a reader sees."""
    return [line.rstrip() for line in left.strip().splitlines()] == [
        line.rstrip() for line in right.strip().splitlines()
    ]
