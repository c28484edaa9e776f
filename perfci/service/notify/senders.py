"""Senders of each kind of destination; a repeated message carries the same id."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from perfci.config import Secrets, Settings
from perfci.github.client import GitHubClient, open_github_client
from perfci.github.errors import GitHubError
from perfci.github.requester import GitHubRetryPolicy
from perfci.model import PerfciError
from perfci.net import smtp_mail
from perfci.net.address_check import IpNetwork
from perfci.net.ssrf_safe_http import CheckedResponse, CheckedTransport, send_checked_request
from perfci.net.url_segments import encode_segment
from perfci.report.incidents import notification_text
from perfci.store.jobs.notification_queue import Delivery

ISSUE_LABEL = "perfci"
"""Label of issues that perfci opens; it limits the search for existing ones."""

MAX_ISSUES_BYTES = 4 * 1024 * 1024
"""Response limit in bytes: a page of a hundred issues."""

SINGLE_ATTEMPT = GitHubRetryPolicy(attempts=1)
"""No retries while sending: a failed delivery is rescheduled, so that others need not wait."""

IncidentLink = Callable[[str, int], str]
"""Return the URL of an incident from project and number; empty without a server."""


@dataclass(frozen=True, slots=True)
class SenderConfig:
    """Configuration of senders: allowed private networks, mail server, GitHub API, links, and the key of
    stored addresses.
    """

    allowed_networks: Sequence[IpNetwork] = ()
    mail_server: smtp_mail.MailServer = field(default_factory=lambda: smtp_mail.MailServer(""))
    github_api: str = "https://api.github.com"
    build_link: IncidentLink = lambda project, number: ""
    secret_key: str = field(default="", repr=False)


def build_sender_config(settings: Settings, secrets: Secrets) -> SenderConfig:
    """Build the sender configuration from settings and secrets."""
    notify, public = settings.notify, settings.server.public_url
    server = smtp_mail.MailServer(
        host=notify.smtp_host,
        port=notify.smtp_port,
        user=notify.smtp_user,
        password=secrets.smtp_password.get_secret_value(),
        tls=notify.smtp_tls,
        sender=notify.sender or "perfci@localhost",
    )

    def link(project: str, number: int) -> str:
        return f"{public}/{encode_segment(project)}/incidents/{number}" if public else ""

    return SenderConfig(
        notify.allow_networks,
        server,
        notify.github_api or "https://api.github.com",
        link,
        secrets.secret_key.get_secret_value(),
    )


@dataclass(frozen=True, slots=True)
class SendResult:
    """The URL at which a sent message can be read, if any."""

    url: str = ""


class DeliveryError(PerfciError):
    """A failed delivery, permanent if ``final``; ``retry_after_s`` is the delay the receiver asked for."""

    def __init__(self, sentence: str, *, final: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.final = final
        self.retry_after_s = retry_after_s


class Sender(Protocol):
    """Sends a batch of deliveries as one message; raises ``PerfciError`` if it was not accepted."""

    def __call__(
        self, batch: Sequence[Delivery], uid: str, config: SenderConfig, now: datetime
    ) -> SendResult: ...


def send_chat_message(batch: Sequence[Delivery], uid: str, config: SenderConfig, now: datetime) -> SendResult:
    """Send text to an incoming webhook of Slack, Mattermost, Rocket.Chat or Discord (``/slack``)."""
    text = f"*{_build_subject(batch)}*\n{_build_text(batch, config)}"
    # The three characters of Slack markup: <!channel> would notify everyone.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    body = json.dumps({"text": text}, ensure_ascii=False).encode()
    _post_request(batch[0].destination.address, body, {"X-Perfci-Delivery": uid}, config)
    return SendResult()


def send_webhook(batch: Sequence[Delivery], uid: str, config: SenderConfig, now: datetime) -> SendResult:
    """Send incidents as JSON, signed with HMAC-SHA256 over the body as GitHub signs its webhooks."""
    incidents = [
        dict(delivery.body) | {"url": config.build_link(delivery.project, delivery.number)}
        for delivery in batch
    ]
    body = json.dumps({"delivery": uid, "subject": _build_subject(batch), "incidents": incidents}).encode()
    headers = {"X-Perfci-Delivery": uid, "X-Perfci-Event": "incident"}
    if secret := batch[0].destination.secret:
        headers["X-Perfci-Signature"] = compute_signature(secret, body)
    _post_request(batch[0].destination.address, body, headers, config)
    return SendResult()


def send_email(batch: Sequence[Delivery], uid: str, config: SenderConfig, now: datetime) -> SendResult:
    """Send a plain-text mail, with the same ``Message-ID`` on each attempt."""
    to, server = batch[0].destination.address, config.mail_server
    smtp_mail.send_mail(
        smtp_mail.build_mail_message(server, to, _build_subject(batch), _build_text(batch, config), uid, now),
        server,
    )
    return SendResult()


def post_to_github_issue(
    batch: Sequence[Delivery], uid: str, config: SenderConfig, now: datetime
) -> SendResult:
    """Open an issue for each incident, or comment on its existing one."""
    urls = [_send_issue(delivery, config) for delivery in batch]
    return SendResult(urls[0] if len(urls) == 1 else "")


SENDERS: Mapping[str, Sender] = MappingProxyType(
    {
        "slack": send_chat_message,
        "webhook": send_webhook,
        "email": send_email,
        "github_issue": post_to_github_issue,
    }
)
"""The sender of each kind of destination."""


def compute_signature(secret: str, body: bytes) -> str:
    """Compute the HMAC-SHA256 signature of a body, in the format of GitHub's ``X-Hub-Signature-256``."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def require_accepted_response(response: CheckedResponse, receiver: str) -> CheckedResponse:
    """Raise ``DeliveryError`` for a failed response; rate limits and server errors may be retried."""
    if response.is_success:
        return response
    later = response.status in (408, 425, 429) or response.status >= 500
    limited = response.status == 403 and (
        response.retry_after_s or response.headers.get("x-ratelimit-remaining") == "0"
    )
    raise DeliveryError(
        f"{receiver} answered {response.status}",
        final=not (later or limited),
        retry_after_s=response.retry_after_s,
    )


def _post_request(url: str, body: bytes, headers: Mapping[str, str], config: SenderConfig) -> None:
    all_headers = {"Content-Type": "application/json; charset=utf-8", **headers}
    require_accepted_response(
        send_checked_request(
            "POST", url, body=body, headers=all_headers, allowed_networks=config.allowed_networks
        ),
        "the receiver",
    )


def _build_subject(batch: Sequence[Delivery]) -> str:
    bodies: list[Mapping[str, Any]] = [delivery.body for delivery in batch]
    return (
        notification_text.notification_subject(bodies[0])
        if len(batch) == 1
        else notification_text.digest_subject(bodies)
    )


def _build_text(batch: Sequence[Delivery], config: SenderConfig) -> str:
    links = [config.build_link(delivery.project, delivery.number) for delivery in batch]
    if len(batch) == 1:
        return notification_text.notification_body(batch[0].body, links[0])
    return notification_text.digest_body([delivery.body for delivery in batch], links)


def _send_issue(delivery: Delivery, config: SenderConfig) -> str:
    transport = CheckedTransport(config.allowed_networks, MAX_ISSUES_BYTES)
    client = open_github_client(
        delivery.destination.secret, config.github_api, retry_policy=SINGLE_ATTEMPT, transport=transport
    )
    try:
        return _open_issue_or_comment(client, delivery, config)
    except GitHubError as error:
        raise DeliveryError(
            str(error), final=not error.is_transient, retry_after_s=error.retry_after_s
        ) from error


def _open_issue_or_comment(client: GitHubClient, delivery: Delivery, config: SenderConfig) -> str:
    """Create the issue or comment unless its hidden marker shows that an earlier attempt succeeded."""
    repository, mark = delivery.destination.address, f"<!-- perfci delivery {delivery.uid} -->"
    head = _neutralize_mentions(notification_text.notification_subject(delivery.body))
    link = config.build_link(delivery.project, delivery.number)
    body = notification_text.notification_body(delivery.body, link)
    text = f"{_neutralize_mentions(body)}\n\n{mark}"
    issue = re.fullmatch(rf"https?://[^/]+/{re.escape(repository)}/issues/(\d{{1,9}})", delivery.issue_url)
    if issue is None:
        existing = (
            newest
            for newest in client.list_newest_labeled_issues(repository, ISSUE_LABEL)
            if mark in (newest.body or "")
        )
        return (next(existing, None) or client.create_issue(repository, head, text, [ISSUE_LABEL])).html_url
    number = int(issue[1])
    if not any(mark in comment.body for comment in client.list_comments(repository, number)):
        client.create_comment(repository, number, f"**{head}**\n\n{text}")
    return delivery.issue_url


def _neutralize_mentions(text: str) -> str:
    """Insert a word joiner after ``@`` and ``#``, so that names from results create no mentions or links."""
    return re.sub(r"([@#])(?=\w)", "\\1\u2060", text).replace("<!--", "&lt;!--")
