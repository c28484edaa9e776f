"""Where GitHub posts what happened: no session and no token, but a signature over the bytes that is checked first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from flask import Flask, Request, Response, request

from perfci.config import Secrets, Settings
from perfci.github import webhook_events
from perfci.github.webhook_events import PullRequestEvent, WebhookEvent
from perfci.github.webhook_signature import has_valid_signature
from perfci.model import PerfciError
from perfci.service.pulls.webhook_receiver import receive_event
from perfci.store.writes.group_commit import GroupCommitter, StoreUnavailable
from perfci_web.api.operation import API_PREFIX
from perfci_web.api.problems import ProblemError
from perfci_web.api.request_body import MIB, BodyReader

WEBHOOK_PATH = f"{API_PREFIX}/github/webhook"

MAX_BODY_BYTES = 5 * MIB
"""GitHub sends up to 25 MiB; what perfci acts on has some twenty thousand bytes."""

EVENT_NAME_PATTERN = re.compile(r"[a-z0-9_]{1,64}")
DELIVERY_ID_PATTERN = re.compile(r"[0-9A-Za-z-]{1,64}")


def init_app(
    app: Flask,
    group_commit: Callable[[], GroupCommitter],
    settings: Settings,
    secrets: Secrets,
    clock: Callable[[], datetime],
) -> None:
    """Take webhooks where this server is a GitHub App; elsewhere there is no such address."""
    if not settings.app.id:
        return
    held = _webhook_secrets(secrets)
    bodies = BodyReader(max_wire_bytes=MAX_BODY_BYTES, max_inflated_bytes=MAX_BODY_BYTES)

    def webhook() -> Response:
        _require_unencoded(request)
        with bodies.read_body(request) as raw:
            if not has_valid_signature(raw.body, request.headers.get("X-Hub-Signature-256", ""), held):
                raise ProblemError(
                    "unauthorized", "The body is not signed with the secret of this server's webhook."
                )
            event, delivery = (
                _parse_event(request, raw.body),
                _require_header(request, "X-GitHub-Delivery", DELIVERY_ID_PATTERN),
            )
        return _store_event(group_commit(), event, delivery, clock())

    app.add_url_rule(
        WEBHOOK_PATH, "github.webhook", webhook, methods=["POST"], provide_automatic_options=False
    )


def _webhook_secrets(secrets: Secrets) -> Sequence[str]:
    held = [one.get_secret_value() for one in (secrets.app_webhook_secret, secrets.app_webhook_secret_old)]
    if not held[0]:
        raise PerfciError(
            "[app] id names a GitHub App and PERFCI_APP_WEBHOOK_SECRET is not set: without it nobody could tell what "
            "GitHub sent from what others send. Set it here and on the App's page of GitHub."
        )
    return held


def _require_unencoded(incoming: Request) -> None:
    """GitHub packs nothing: what is inflated before its signature is checked would be anybody's."""
    if incoming.headers.get("Content-Encoding"):
        raise ProblemError("media-type", "A body is taken as GitHub sends it, without Content-Encoding.")


def _parse_event(incoming: Request, body: bytes) -> WebhookEvent | None:
    try:
        return webhook_events.parse_event(
            _require_header(incoming, "X-GitHub-Event", EVENT_NAME_PATTERN), body
        )
    except PerfciError as error:
        raise ProblemError("bad-request", str(error)) from None


def _require_header(incoming: Request, header: str, pattern: re.Pattern[str]) -> str:
    text = incoming.headers.get(header, "")
    if not pattern.fullmatch(text):
        raise ProblemError("bad-request", f"The header {header} is missing, or is not as GitHub sends it.")
    return text


def _store_event(
    group_commit: GroupCommitter, event: WebhookEvent | None, delivery: str, now: datetime
) -> Response:
    """A sentence that an admin reads where GitHub lists its deliveries."""
    try:
        kept = group_commit.submit(lambda tx: receive_event(tx, event, delivery, now)) if event else 0
    except StoreUnavailable as error:
        raise ProblemError("unavailable", "The server cannot store it now: redeliver it later.") from error
    what = (
        "What it announced will be kept"
        if isinstance(event, PullRequestEvent)
        else "The pull request will be told"
    )
    told, status = (f"{what}.\n", 202) if kept else ("Nothing to do, or known already.\n", 200)
    return Response(told, status, content_type="text/plain; charset=utf-8")
