"""The webhook endpoint of a GitHub App; requests are authenticated by a signature over the body."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from flask import Flask, Request, Response, request

from perfci.config import Secrets, Settings
from perfci.github import webhook_events
from perfci.github.webhook_events import PullRequestEvent, WebhookEvent, has_valid_signature
from perfci.model import PerfciError
from perfci.service.pulls.webhook_receiver import store_webhook_event
from perfci.store.transactions import StoreUnavailable
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web.api.operation import API_PREFIX
from perfci_web.api.problem_details import ProblemError
from perfci_web.api.request_pipeline import MIB, BodyReader

WEBHOOK_PATH = f"{API_PREFIX}/github/webhook"

MAX_BODY_BYTES = 5 * MIB
"""GitHub sends up to 25 MiB; events that perfci handles have some twenty kilobytes."""

EVENT_NAME_PATTERN = re.compile(r"[a-z0-9_]{1,64}")
DELIVERY_ID_PATTERN = re.compile(r"[0-9A-Za-z-]{1,64}")


def register_github_webhook(
    app: Flask,
    group_commit: GroupCommitter,
    settings: Settings,
    secrets: Secrets,
    clock: Callable[[], datetime],
) -> None:
    """Add the endpoint where this server is a GitHub App."""
    if not settings.app.id:
        return
    webhook_secrets = _webhook_secrets(secrets)
    bodies = BodyReader(max_wire_bytes=MAX_BODY_BYTES, max_inflated_bytes=MAX_BODY_BYTES)

    def webhook() -> Response:
        _require_unencoded(request)
        with bodies.read_body(request) as raw:
            if not has_valid_signature(
                raw.body, request.headers.get("X-Hub-Signature-256", ""), webhook_secrets
            ):
                raise ProblemError(
                    "unauthorized", "The body is not signed with the secret of this server's webhook."
                )
            event = _parse_event(request, raw.body)
            delivery = _require_header(request, "X-GitHub-Delivery", DELIVERY_ID_PATTERN)
        return _store_event(group_commit, event, delivery, clock(), settings.app.order_label)

    app.add_url_rule(
        WEBHOOK_PATH, "github.webhook", webhook, methods=["POST"], provide_automatic_options=False
    )


def _webhook_secrets(secrets: Secrets) -> Sequence[str]:
    current = secrets.app_webhook_secret.get_secret_value()
    if not current:
        raise PerfciError(
            "[app] id names a GitHub App and PERFCI_APP_WEBHOOK_SECRET is not set: without it webhook "
            "deliveries cannot be authenticated. Set it here and on the App's page of GitHub."
        )
    # The old one is accepted too while it is being replaced.
    return [current, secrets.app_webhook_secret_old.get_secret_value()]


def _require_unencoded(incoming: Request) -> None:
    """Refuse encoded bodies: GitHub sends none, and inflating before the signature check is a risk."""
    if incoming.headers.get("Content-Encoding"):
        raise ProblemError("media-type", "A body is taken as GitHub sends it, without Content-Encoding.")


def _parse_event(incoming: Request, body: bytes) -> WebhookEvent | None:
    try:
        return webhook_events.parse_webhook_event(
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
    group_commit: GroupCommitter, event: WebhookEvent | None, delivery: str, now: datetime, order_label: str
) -> Response:
    """Store an event; the text of the answer is shown in GitHub's list of deliveries."""
    try:
        is_new = (
            group_commit.submit(lambda tx: store_webhook_event(tx, event, delivery, now, order_label))
            if event
            else False
        )
    except StoreUnavailable as error:
        raise ProblemError("unavailable", "The server cannot store it now: redeliver it later.") from error
    if not is_new:
        text, status = "Nothing to do, or already processed.", 200
    elif isinstance(event, PullRequestEvent) and event.action == "closed":
        text, status = "Expected changes will be recorded.", 202
    else:
        text, status = "The pull request will be updated.", 202
    return Response(f"{text}\n", status, content_type="text/plain; charset=utf-8")
