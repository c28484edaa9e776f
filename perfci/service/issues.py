"""Incidents as issues of a GitHub repository: opened once, and told there how it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from perfci.model import PerfciError
from perfci.net.webhooks import Answer, request
from perfci.report import notices
from perfci.service.senders import Means, Sent, Undelivered, checked
from perfci.store.deliveries import Delivery

REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
LABEL = "perfci"
"""Issues of ours carry it, so that looking for one reads no others."""

MOST_ISSUES = 100
"""One page of GitHub's lists: a message that was sent just now is among the newest."""


def to_issue(batch: Sequence[Delivery], uid: str, means: Means, now: datetime) -> Sent:
    """Open an issue for an incident, or comment on the one it has; one message after the other."""
    urls = [_one(delivery, means) for delivery in batch]
    return Sent(urls[0] if len(urls) == 1 else "")


def repository(address: str) -> str:
    if not REPOSITORY.fullmatch(address):
        raise PerfciError(f"{address!r} is no repository; expected for example acme/model.")
    return address


def _one(delivery: Delivery, means: Means) -> str:
    """What arrived before an answer got lost is found again by the mark it carries."""
    mark = f"<!-- perfci delivery {delivery.uid} -->"
    name = repository(delivery.destination.address)
    number = _number_of(delivery.issue_url, name)
    list_path = f"issues/{number}/comments?per_page={MOST_ISSUES}" if number else (
        f"issues?labels={LABEL}&state=all&sort=created&direction=desc&per_page={MOST_ISSUES}"
    )  # fmt: skip
    for known in _asked(delivery, means, "GET", list_path):
        if mark in (known.get("body") or ""):
            return delivery.issue_url if number else str(known["html_url"])
    text = f"{_quiet(notices.text(delivery.body, means.link(delivery.project, delivery.number)))}\n\n{mark}"
    if number:
        head = _quiet(notices.subject(delivery.body))
        _asked(delivery, means, "POST", f"issues/{number}/comments", {"body": f"**{head}**\n\n{text}"})
        return delivery.issue_url
    new = {"title": _quiet(notices.subject(delivery.body)), "body": text, "labels": [LABEL]}
    return str(_asked(delivery, means, "POST", "issues", new)["html_url"])


def _asked(delivery: Delivery, means: Means, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    url = f"{means.github_api.rstrip('/')}/repos/{repository(delivery.destination.address)}/{path}"
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {delivery.destination.secret}",
        "X-GitHub-Api-Version": "2022-11-28",
        "Content-Type": "application/json",
    }
    sent = json.dumps(body).encode() if body is not None else b""
    answer: Answer = checked(
        request(method, url, body=sent, headers=headers, allowed=means.allowed, most_bytes=MOST_ANSWER), "GitHub"
    )
    try:
        return json.loads(answer.body)
    except ValueError as error:
        raise Undelivered("GitHub answered something that is no JSON") from error


MOST_ANSWER = 4 * 1024 * 1024
"""A page of a hundred issues with bodies of ours; GitHub's API is no stranger."""


def _number_of(url: str, name: str) -> int | None:
    found = re.fullmatch(rf"https?://[^/]+/{re.escape(name)}/issues/(\d{{1,9}})", url)
    return int(found[1]) if found else None


def _quiet(text: str) -> str:
    """Names from results mention nobody and link to nothing: a zero-width joiner parts ``@`` and ``#`` from a name."""
    return re.sub(r"([@#])(?=\w)", "\\1\u2060", text).replace("<!--", "&lt;!--")
