"""GitHub as the sender of webhooks: real payloads, signed over their bytes."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import datetime
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from perfci.config import Secrets, Settings
from perfci.store import Store
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository
from perfci.store.projects import Project, create_project
from tests.support.github_payloads import example, run_of
from tests.support.stateful_github import OWNER, pull

Json = dict[str, Any]

SECRET, OLD_SECRET = "It's a s3cret to everybody", "the one before"
PATH = "/api/v1/github/webhook"
INSTALLATION = 44
SETTINGS = Settings.model_validate(
    {"app": {"id": "Iv1.7"}, "server": {"public_url": "https://perf.example.com"}}
)
SECRETS = Secrets.model_validate({"app_webhook_secret": SECRET, "app_webhook_secret_old": OLD_SECRET})
RUN = 17
HERE = BoundRepository(1, OWNER["id"], "acme/model", ".github/workflows/perf.yml", "", ("refs/heads/main",))


def a_bound_project(
    store: Store, at: datetime, slug: str = "acme/model", bound: BoundRepository = HERE
) -> Project:
    with store.begin() as tx:
        made = create_project(tx, slug, "private", at)
        github_bindings.bind_repository(tx, made.id, bound, at)
    return made


def workflow_run_event(proposal: Json | None = None, action: str = "completed", **changes: Any) -> Json:
    """What GitHub tells its App of the run of perf.yml for a pull request."""
    payload = run_of(proposal or pull(), RUN, action="completed" if action == "completed" else "requested")
    payload["workflow_run"] |= {
        "repository": payload["workflow_run"]["repository"] | {"owner": OWNER}
    } | changes
    return payload | {"action": action, "installation": {"id": INSTALLATION, "node_id": "MDIz"}}


def comment_event_payload(body: str, number: int = 7) -> Json:
    """What GitHub tells its App of a comment on a pull request."""
    repository = {"id": 1, "full_name": "acme/model", "owner": OWNER}
    issue = {
        "number": number,
        "pull_request": {"url": f"https://api.github.com/repos/acme/model/pulls/{number}"},
    }
    changes = {"issue": issue, "comment": {"body": body}, "repository": repository}
    return example("issue_comment", "created", **changes) | {"installation": {"id": INSTALLATION}}


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def post(app: Flask, kind: str, payload: Json | bytes, delivery: str = "d-1", **headers: str) -> TestResponse:
    """Deliver an event as GitHub does; a header that is empty is left out."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    sent = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/044aadd",
        "X-GitHub-Event": kind,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": signature(body),
        **headers,
    }
    return app.test_client().post(
        PATH, data=body, headers={name: text for name, text in sent.items() if text}
    )
