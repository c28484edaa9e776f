"""Bring a pull request to the state that a report wants; doing it twice changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from perfci.github.client import GitHubClient
from perfci.github.publish_check import publish_check
from perfci.github.publish_comment import publish_comment
from perfci.github.pull_report import CommentAuthor, PullReport, ReportOutdated


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """Where it can be read, and what had to be written; nothing, where everything stood there already."""

    comment_url: str
    check_url: str
    written: tuple[str, ...]


def deliver_report(client: GitHubClient, author: CommentAuthor, report: PullReport) -> DeliveryResult:
    """The check first, because it may stop a merge; whatever is lost on the way, the next run finds and
    completes.
    """
    _require_current_head(client, report)
    check_url, checked = publish_check(client, author, report.repository, report.head_sha, report.check)
    comment_url, commented = publish_comment(client, author, report)
    return DeliveryResult(comment_url, check_url, (*checked, *commented))


def _require_current_head(client: GitHubClient, report: PullReport) -> None:
    head = client.get_pull(report.repository, report.pull).head.sha
    if head != report.head_sha:
        raise ReportOutdated(
            f"{report.repository}#{report.pull} is at {head[:12]} by now and this report is about "
            f"{report.head_sha[:12]}: nothing was written. The newer commit gets its own report."
        )
