"""How a message travels to each kind of destination; what is sent twice is the same message to its receiver."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from perfci.config import Secrets, Settings
from perfci.model import PerfciError
from perfci.net import smtp_mail
from perfci.net.address_check import Network
from perfci.net.checked_http import Answer, request
from perfci.net.url_segments import segment
from perfci.report.incidents import notification_text
from perfci.store.jobs.delivery_queue import Delivery

Link = Callable[[str, int], str]
"""Where an incident of a project is shown; empty where no server is."""


@dataclass(frozen=True, slots=True)
class Means:
    """What all senders need: networks that may be reached beside the public one, the mail server, and addresses."""

    allowed: Sequence[Network] = ()
    mail_server: smtp_mail.MailServer = field(default_factory=lambda: smtp_mail.MailServer(""))
    github_api: str = "https://api.github.com"
    link: Link = lambda project, number: ""


def means_of(settings: Settings, secrets: Secrets) -> Means:
    """What senders need, as it is configured."""
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
        return f"{public}/{segment(project)}/incidents/{number}" if public else ""

    return Means(notify.allow_networks, server, notify.github_api or "https://api.github.com", link)


@dataclass(frozen=True, slots=True)
class Sent:
    """Where a message can be found now, if anywhere."""

    url: str = ""


class Undelivered(PerfciError):
    """The receiver did not take it; ``final`` says that it never will, ``after_s`` when it wants to be asked again."""

    def __init__(self, sentence: str, *, final: bool = False, after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.final = final
        self.after_s = after_s


class Sender(Protocol):
    def __call__(self, batch: Sequence[Delivery], uid: str, means: Means, now: datetime) -> Sent: ...


def to_slack(batch: Sequence[Delivery], uid: str, means: Means, now: datetime) -> Sent:
    """Text as Slack's incoming webhooks, Mattermost, Rocket.Chat and Discord (``/slack``) take it."""
    text = _escaped(f"*{_subject(batch)}*\n{_text(batch, means)}")
    body = json.dumps({"text": text}, ensure_ascii=False).encode()
    _post(batch[0].destination.address, body, {"X-Perfci-Delivery": uid}, means)
    return Sent()


def to_webhook(batch: Sequence[Delivery], uid: str, means: Means, now: datetime) -> Sent:
    """The incidents as JSON, signed over the bytes of the body as GitHub signs its own webhooks."""
    incidents = [dict(one.body) | {"url": means.link(one.project, one.number)} for one in batch]
    body = json.dumps({"delivery": uid, "subject": _subject(batch), "incidents": incidents}).encode()
    headers = {"X-Perfci-Delivery": uid, "X-Perfci-Event": "incident"}
    if secret := batch[0].destination.secret:
        headers["X-Perfci-Signature"] = signature(secret, body)
    _post(batch[0].destination.address, body, headers, means)
    return Sent()


def to_mail(batch: Sequence[Delivery], uid: str, means: Means, now: datetime) -> Sent:
    """Plain text; the same ``Message-ID`` each time it is tried."""
    to, server = batch[0].destination.address, means.mail_server
    smtp_mail.send(smtp_mail.message(server, to, _subject(batch), _text(batch, means), uid, now), server)
    return Sent()


def signature(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def checked(answer: Answer, what: str) -> Answer:
    """What a status means for another try: too much or broken there is tried again, refused is not."""
    if answer.ok:
        return answer
    later = answer.status in (408, 425, 429) or answer.status >= 500
    limited = answer.status == 403 and (answer.retry_after_s or answer.headers.get("x-ratelimit-remaining") == "0")
    raise Undelivered(f"{what} answered {answer.status}", final=not (later or limited), after_s=answer.retry_after_s)


def _post(url: str, body: bytes, headers: Mapping[str, str], means: Means) -> None:
    told = {"Content-Type": "application/json; charset=utf-8", **headers}
    checked(request("POST", url, body=body, headers=told, allowed=means.allowed), "the receiver")


def _subject(batch: Sequence[Delivery]) -> str:
    bodies: list[Mapping[str, Any]] = [one.body for one in batch]
    return notification_text.subject(bodies[0]) if len(batch) == 1 else notification_text.digest_subject(bodies)


def _text(batch: Sequence[Delivery], means: Means) -> str:
    links = [means.link(one.project, one.number) for one in batch]
    if len(batch) == 1:
        return notification_text.text(batch[0].body, links[0])
    return notification_text.digest_text([one.body for one in batch], links)


def _escaped(text: str) -> str:
    """Slack reads <...> as a link or a call for everybody (``<!channel>``), and these three characters end that."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
