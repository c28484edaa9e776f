"""Incidents as issues of a GitHub repository: opened once, and told there how it goes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from perfci.github.client import Client, connect
from perfci.github.errors import Refused
from perfci.github.requester import Patience
from perfci.net.checked_http import CheckedTransport
from perfci.report.incidents import notification_text
from perfci.service.notify.senders import Means, Sent, Undelivered
from perfci.store.jobs.delivery_queue import Delivery

LABEL = "perfci"
"""Issues of ours carry it, so that looking for one reads no others."""

MOST_ANSWER = 4 * 1024 * 1024
"""A page of a hundred issues with bodies of ours; GitHub's API is no stranger."""

ONCE = Patience(attempts=1)
"""Others are waiting: what is not taken now is sent again later."""


def to_issue(batch: Sequence[Delivery], uid: str, means: Means, now: datetime) -> Sent:
    """Open an issue for an incident, or comment on the one it has; one message after the other."""
    urls = [_one(delivery, means) for delivery in batch]
    return Sent(urls[0] if len(urls) == 1 else "")


def _one(delivery: Delivery, means: Means) -> str:
    transport = CheckedTransport(means.allowed, MOST_ANSWER)
    client = connect(delivery.destination.secret, means.github_api, patience=ONCE, transport=transport)
    try:
        return _told(client, delivery, means)
    except Refused as error:
        raise Undelivered(str(error), final=not error.passing, after_s=error.after_s) from error


def _told(client: Client, delivery: Delivery, means: Means) -> str:
    """What arrived before an answer got lost is found again by the mark it carries."""
    repository, mark = delivery.destination.address, f"<!-- perfci delivery {delivery.uid} -->"
    head = _quiet(notification_text.subject(delivery.body))
    text = f"{_quiet(notification_text.text(delivery.body, means.link(delivery.project, delivery.number)))}\n\n{mark}"
    number = _number_of(delivery.issue_url, repository)
    if number is None:
        known = (one for one in client.newest_issues(repository, LABEL) if mark in (one.body or ""))
        return (next(known, None) or client.create_issue(repository, head, text, [LABEL])).html_url
    if not any(mark in one.body for one in client.comments(repository, number)):
        client.create_comment(repository, number, f"**{head}**\n\n{text}")
    return delivery.issue_url


def _number_of(url: str, name: str) -> int | None:
    found = re.fullmatch(rf"https?://[^/]+/{re.escape(name)}/issues/(\d{{1,9}})", url)
    return int(found[1]) if found else None


def _quiet(text: str) -> str:
    """Names from results mention nobody and link to nothing: a zero-width joiner parts ``@`` and ``#`` from a name."""
    return re.sub(r"([@#])(?=\w)", "\\1\u2060", text).replace("<!--", "&lt;!--")
