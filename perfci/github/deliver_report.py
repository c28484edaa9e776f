"""Bring a pull request to the state that a report wants; doing it twice changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from perfci.github.client import Client
from perfci.github.publish_check import show_check
from perfci.github.publish_comment import show_comment
from perfci.github.pull_report import Author, Overtaken, PullReport


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where it can be read, and what had to be written; nothing, where everything stood there already."""

    comment_url: str
    check_url: str
    written: tuple[str, ...]


def deliver(client: Client, author: Author, report: PullReport) -> Delivered:
    """The check first, because it may stop a merge; whatever is lost on the way, the next run finds and completes."""
    _head_still_there(client, report)
    check_url, checked = show_check(client, author, report.repository, report.head_sha, report.check)
    comment_url, commented = show_comment(client, author, report)
    return Delivered(comment_url, check_url, (*checked, *commented))


def _head_still_there(client: Client, report: PullReport) -> None:
    head = client.pull(report.repository, report.pull).head.sha
    if head != report.head_sha:
        raise Overtaken(
            f"{report.repository}#{report.pull} is at {head[:12]} by now and this report is about "
            f"{report.head_sha[:12]}: nothing was written. The newer commit gets its own report."
        )
