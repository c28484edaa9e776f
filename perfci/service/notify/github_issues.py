"""Send notifications as GitHub issues: one issue for each incident, then comments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from perfci.github.client import GitHubClient, open_github_client
from perfci.github.errors import GitHubError
from perfci.github.requester import GitHubRetryPolicy
from perfci.net.checked_http import CheckedTransport
from perfci.report.incidents import notification_text
from perfci.service.notify.senders import DeliveryError, SenderConfig, SendResult
from perfci.store.jobs.delivery_queue import Delivery

LABEL = "perfci"
"""Label of issues that perfci opens; it limits the search for existing ones."""

MAX_RESPONSE_BYTES = 4 * 1024 * 1024
"""Response limit in bytes: a page of a hundred issues."""

SINGLE_ATTEMPT = GitHubRetryPolicy(attempts=1)
"""No retries while sending: a failed delivery is rescheduled, so that others need not wait."""


def send_github_issue(batch: Sequence[Delivery], uid: str, config: SenderConfig, now: datetime) -> SendResult:
    """Open an issue for each incident, or comment on its existing one."""
    urls = [_send_delivery(delivery, config) for delivery in batch]
    return SendResult(urls[0] if len(urls) == 1 else "")


def _send_delivery(delivery: Delivery, config: SenderConfig) -> str:
    transport = CheckedTransport(config.allowed_networks, MAX_RESPONSE_BYTES)
    client = open_github_client(
        delivery.destination.secret, config.github_api, retry_policy=SINGLE_ATTEMPT, transport=transport
    )
    try:
        return _create_or_comment(client, delivery, config)
    except GitHubError as error:
        raise DeliveryError(
            str(error), final=not error.is_transient, retry_after_s=error.retry_after_s
        ) from error


def _create_or_comment(client: GitHubClient, delivery: Delivery, config: SenderConfig) -> str:
    """Create the issue or comment unless its hidden marker shows that an earlier attempt succeeded."""
    repository, mark = delivery.destination.address, f"<!-- perfci delivery {delivery.uid} -->"
    head = _neutralize_mentions(notification_text.notification_subject(delivery.body))
    link = config.build_link(delivery.project, delivery.number)
    body = notification_text.notification_body(delivery.body, link)
    text = f"{_neutralize_mentions(body)}\n\n{mark}"
    issue = re.fullmatch(rf"https?://[^/]+/{re.escape(repository)}/issues/(\d{{1,9}})", delivery.issue_url)
    if issue is None:
        existing = (
            newest for newest in client.list_newest_issues(repository, LABEL) if mark in (newest.body or "")
        )
        return (next(existing, None) or client.create_issue(repository, head, text, [LABEL])).html_url
    number = int(issue[1])
    if not any(mark in comment.body for comment in client.list_comments(repository, number)):
        client.create_comment(repository, number, f"**{head}**\n\n{text}")
    return delivery.issue_url


def _neutralize_mentions(text: str) -> str:
    """Insert a word joiner after ``@`` and ``#``, so that names from results create no mentions or links."""
    return re.sub(r"([@#])(?=\w)", "\\1\u2060", text).replace("<!--", "&lt;!--")
