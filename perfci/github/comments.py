"""One comment on a pull request, edited in place: ours by its hidden mark and by who wrote it."""

from __future__ import annotations

from perfci.github.client import Client
from perfci.github.shapes import Comment
from perfci.github.wanted import Author, PullReport
from perfci.model import PerfciError


def show_comment(client: Client, author: Author, report: PullReport) -> tuple[str, list[str]]:
    """Where the comment is (nowhere, where there is none), and what had to be written for it.

    Two senders at once may both have found none and written one each; the first of them stays.
    """
    ours = _ours(client, author, report)
    if not ours:
        return (_created(client, author, report), ["comment"]) if report.opens_comment else ("", [])
    first, *others = sorted(ours, key=lambda one: one.id)
    written = []
    if not _same(first.body, report.comment_body):
        client.update_comment(report.repository, first.id, report.comment_body)
        written.append("comment")
    for other in others:
        client.delete_comment(report.repository, other.id)
        written.append("second comment deleted")
    return first.html_url, written


def _ours(client: Client, author: Author, report: PullReport) -> list[Comment]:
    """Anybody can type the mark, and text of users may stand in other comments of ours: it has to come first."""
    return [
        one
        for one in client.comments(report.repository, report.pull)
        if one.body.startswith(report.mark) and _is_by(one, author)
    ]


def _created(client: Client, author: Author, report: PullReport) -> str:
    """A comment that the next run would not know as ours would be followed by another one; it is taken back."""
    made = client.create_comment(report.repository, report.pull, report.comment_body)
    if not _is_by(made, author):
        client.delete_comment(report.repository, made.id)
        found = made.user.login if made.user else "nobody"
        raise PerfciError(
            f"Comments with this token appear as {found}, and {author.login} was expected: the next run would not "
            f"find its own comment. Name {found} as the author."
        )
    return made.html_url


def _is_by(comment: Comment, author: Author) -> bool:
    return comment.user is not None and comment.user.login.lower() == author.login.lower()


def _same(left: str, right: str) -> bool:
    """Line ends, and blanks at the end of a line, are no difference that a reader sees."""
    return [line.rstrip() for line in left.strip().splitlines()] == [
        line.rstrip() for line in right.strip().splitlines()
    ]
