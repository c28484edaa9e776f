"""One comment on a pull request, edited in place: ours by its hidden mark and by who wrote it."""

from __future__ import annotations

from collections.abc import Callable

from perfci.github.client import GitHubClient
from perfci.github.pull_report import CommentAuthor, PullReport, comment_marker, commit_marker
from perfci.github.shapes import Comment
from perfci.model import PerfciError


def publish_comment(client: GitHubClient, author: CommentAuthor, report: PullReport) -> tuple[str, list[str]]:
    """Where the comment is (nowhere, where there is none), and what had to be written for it.

    Two senders at once may both have found none and written one each; the first of them stays.
    """
    ours = _list_own_comments(client, author, report.repository, report.pull, report.key)
    if not ours:
        return (
            (_create_comment(client, author, report), ["comment"]) if report.may_create_comment else ("", [])
        )
    first, *others = ours
    written = []
    if not _is_same_text(first.body, report.comment_body):
        client.update_comment(report.repository, first.id, report.comment_body)
        written.append("comment")
    for other in others:
        client.delete_comment(report.repository, other.id)
        written.append("second comment deleted")
    return first.html_url, written


def mark_comment_outdated(
    client: GitHubClient,
    author: CommentAuthor,
    repository: str,
    pull: int,
    key: str,
    head: str,
    mark_outdated: Callable[[str], str],
) -> str:
    """Where a comment on another commit than the head stands, told to be of the past; nowhere, where there is
    none.
    """
    for comment in _list_own_comments(client, author, repository, pull, key)[:1]:
        first, second, text = [*comment.body.replace("\r", "").split("\n", 2), "", ""][:3]
        if second == commit_marker(head):
            return ""
        body = f"{first}\n{second}\n{mark_outdated(text)}"
        if not _is_same_text(comment.body, body):
            client.update_comment(repository, comment.id, body)
        return comment.html_url
    return ""


def _list_own_comments(
    client: GitHubClient, author: CommentAuthor, repository: str, pull: int, key: str
) -> list[Comment]:
    """The oldest first. Anybody can type the mark, and text of users may stand in others of ours: it comes
    first.
    """
    comments = [
        comment
        for comment in client.list_comments(repository, pull)
        if comment.body.startswith(comment_marker(key)) and _is_by(comment, author)
    ]
    return sorted(comments, key=lambda comment: comment.id)


def _create_comment(client: GitHubClient, author: CommentAuthor, report: PullReport) -> str:
    """Delete a comment that the next run would not recognise, and so would duplicate."""
    made = client.create_comment(report.repository, report.pull, report.comment_body)
    if not _is_by(made, author):
        client.delete_comment(report.repository, made.id)
        login = made.user.login if made.user else "nobody"
        raise PerfciError(
            f"Comments with this token appear as {login}, and {author.login} was expected: the next run "
            "would not "
            f"find its own comment. Name {login} as the author."
        )
    return made.html_url


def _is_by(comment: Comment, author: CommentAuthor) -> bool:
    return comment.user is not None and comment.user.login.lower() == author.login.lower()


def _is_same_text(left: str, right: str) -> bool:
    """Line ends, and blanks at the end of a line, are no difference that a reader sees."""
    return [line.rstrip() for line in left.strip().splitlines()] == [
        line.rstrip() for line in right.strip().splitlines()
    ]
