"""Where GitHub posts what happened: no session and no token, but a signature over the bytes that is checked first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from flask import Flask, Request, Response, request

from perfci.config import Secrets, Settings
from perfci.github import webhook_events
from perfci.github.webhook_events import Event, PullRequestEvent
from perfci.github.webhook_signature import is_signed
from perfci.model import PerfciError
from perfci.service.pulls.webhook_receiver import hear
from perfci.store.writes.group_commit import Group, Unavailable
from perfci_web.api.operation import PREFIX
from perfci_web.api.problems import Declined
from perfci_web.api.request_body import MIB, Bodies

PATH = f"{PREFIX}/github/webhook"

MOST_BYTES = 5 * MIB
"""GitHub sends up to 25 MiB; what perfci acts on has some twenty thousand bytes."""

KIND = re.compile(r"[a-z0-9_]{1,64}")
DELIVERY = re.compile(r"[0-9A-Za-z-]{1,64}")


def install(
    app: Flask, group: Callable[[], Group], settings: Settings, secrets: Secrets, clock: Callable[[], datetime]
) -> None:
    """Take webhooks where this server is a GitHub App; elsewhere there is no such address."""
    if not settings.app.id:
        return
    held = _held(secrets)
    bodies = Bodies(wire=MOST_BYTES, inflated=MOST_BYTES)

    def webhook() -> Response:
        _require_plain(request)
        with bodies.reading(request) as raw:
            if not is_signed(raw.body, request.headers.get("X-Hub-Signature-256", ""), held):
                raise Declined("unauthorized", "The body is not signed with the secret of this server's webhook.")
            event, delivery = _event(request, raw.body), _named(request, "X-GitHub-Delivery", DELIVERY)
        return _kept(group(), event, delivery, clock())

    app.add_url_rule(PATH, "github.webhook", webhook, methods=["POST"], provide_automatic_options=False)


def _held(secrets: Secrets) -> Sequence[str]:
    held = [one.get_secret_value() for one in (secrets.app_webhook_secret, secrets.app_webhook_secret_old)]
    if not held[0]:
        raise PerfciError(
            "[app] id names a GitHub App and PERFCI_APP_WEBHOOK_SECRET is not set: without it nobody could tell what "
            "GitHub sent from what others send. Set it here and on the App's page of GitHub."
        )
    return held


def _require_plain(asked: Request) -> None:
    """GitHub packs nothing: what is inflated before its signature is checked would be anybody's."""
    if asked.headers.get("Content-Encoding"):
        raise Declined("media-type", "A body is taken as GitHub sends it, without Content-Encoding.")


def _event(asked: Request, body: bytes) -> Event | None:
    try:
        return webhook_events.event(_named(asked, "X-GitHub-Event", KIND), body)
    except PerfciError as error:
        raise Declined("bad-request", str(error)) from None


def _named(asked: Request, header: str, shape: re.Pattern[str]) -> str:
    text = asked.headers.get(header, "")
    if not shape.fullmatch(text):
        raise Declined("bad-request", f"The header {header} is missing, or is not as GitHub sends it.")
    return text


def _kept(group: Group, event: Event | None, delivery: str, now: datetime) -> Response:
    """A sentence that an admin reads where GitHub lists its deliveries."""
    try:
        kept = group.submit(lambda tx: hear(tx, event, delivery, now)) if event else 0
    except Unavailable as error:
        raise Declined("unavailable", "The server cannot store it now: redeliver it later.") from error
    what = "What it announced will be kept" if isinstance(event, PullRequestEvent) else "The pull request will be told"
    told, status = (f"{what}.\n", 202) if kept else ("Nothing to do, or known already.\n", 200)
    return Response(told, status, content_type="text/plain; charset=utf-8")
