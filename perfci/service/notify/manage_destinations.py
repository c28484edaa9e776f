"""Manage notification destinations; each is validated when it is saved."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.github.api_operations import repository_path_parameters
from perfci.model import PerfciError
from perfci.net.api_schemas import VISIBLE_LINE_PATTERN
from perfci.net.smtp_mail import validate_mail_address
from perfci.net.ssrf_safe_http import parse_destination_url as web_address
from perfci.service.audit_context import AuditContext
from perfci.service.notify.destination_encryption import encrypt_text, ensure_encryptor
from perfci.service.notify.notification_send_time import compute_send_time, parse_time_of_day
from perfci.service.notify.senders import SENDERS, SenderConfig
from perfci.store.jobs import notification_destinations
from perfci.store.jobs.notification_destinations import Destination
from perfci.store.jobs.notification_queue import WAITING, Delivery
from perfci.store.projects import Project, mark_projects_changed

ADDRESS_CHECKS: Mapping[str, Callable[[str], object]] = {
    "slack": web_address,
    "webhook": web_address,
    "email": validate_mail_address,
    "github_issue": repository_path_parameters,
}
"""Validator of the address, by kind of destination."""


def save_destination(
    tx: Transaction,
    project: Project,
    destination: Destination,
    context: AuditContext,
    *,
    secret: str | None,
    secret_key: str,
) -> bool:
    """Add or change a destination; a ``secret`` of None keeps the stored one. Return whether it is new.

    Address and secret are stored encrypted, with ``secret_key`` if there is one.
    """
    if destination.kind not in ADDRESS_CHECKS:
        raise PerfciError(
            f"{destination.kind!r} is no kind of destination; expected {', '.join(ADDRESS_CHECKS)}."
        )
    ADDRESS_CHECKS[destination.kind](destination.address)
    _require_valid_names(destination)
    compute_send_time(context.at, destination.quiet, destination.digest)
    for end in {"from", "to"} & destination.quiet.keys():
        parse_time_of_day(destination.quiet[end])
    existing = notification_destinations.find_destination(tx, project.id, destination.name)
    encryptor = ensure_encryptor(tx, secret_key, context.at)
    keeps_secret = secret is None and existing is not None
    stored_secret = existing.secret if keeps_secret and existing else encrypt_text(encryptor, secret or "")
    if destination.kind == "github_issue" and not stored_secret:
        raise PerfciError("Issues are opened with a token of that repository: send it as the secret.")
    stored = replace(destination, address=encrypt_text(encryptor, destination.address), secret=stored_secret)
    new = notification_destinations.save_destination(tx, project.id, stored)
    detail = {"kind": destination.kind, "enabled": destination.enabled}
    context.add_audit_entry(tx, "destination.set", destination.name, project.id, detail)
    mark_projects_changed(tx, [project.id])
    return new


def _require_valid_names(destination: Destination) -> None:
    """Validate the name and the benchmark patterns: single lines of limited length."""
    if len(destination.name) > MAX_NAME_LENGTH or not re.fullmatch(VISIBLE_LINE_PATTERN, destination.name):
        raise PerfciError(
            f"The name of a destination is one line of at most {MAX_NAME_LENGTH} visible characters."
        )
    globs = destination.routes.get("benchmarks", ())
    if len(globs) > MAX_GLOBS or any(
        len(pattern) > MAX_GLOB_LENGTH or not re.fullmatch(VISIBLE_LINE_PATTERN, pattern) for pattern in globs
    ):
        raise PerfciError(
            f"A destination filters at most {MAX_GLOBS} names of benchmarks, "
            f"each at most {MAX_GLOB_LENGTH} visible characters, with * for any."
        )


MAX_NAME_LENGTH, MAX_GLOB_LENGTH, MAX_GLOBS = 100, 200, 50


def delete_destination(tx: Transaction, project: Project, name: str, context: AuditContext) -> bool:
    """Remove a destination and its queued deliveries; return False if there is none."""
    existed = notification_destinations.delete_destination(tx, project.id, name)
    if existed:
        context.add_audit_entry(tx, "destination.remove", name, project.id, {})
        mark_projects_changed(tx, [project.id])
    return existed


def send_test_message(project: str, destination: Destination, config: SenderConfig, now: datetime) -> str:
    """Send a test message; return the error, or an empty text."""
    body = {
        "project": project,
        "number": 0,
        "state": "new",
        "kind": "data",
        "headline": "This is a test message; nothing happened",
    }
    uid = secrets.token_hex(16)
    delivery = Delivery(
        id=0,
        uid=uid,
        destination=destination,
        project=project,
        incident_id=0,
        number=0,
        state_number=0,
        not_before=now,
        state=WAITING,
        claimed_by="",
        claim=0,
        batch="",
        attempts=0,
        sent_at=None,
        problem="",
        body=body,
        issue_url="",
    )
    try:
        SENDERS[destination.kind]([delivery], uid, config, now)
    except PerfciError as error:
        return str(error)
    return ""


def audit_test_message(tx: Transaction, project: Project, name: str, context: AuditContext) -> None:
    """Record a test message in the audit log, since it leaves this server."""
    context.add_audit_entry(tx, "destination.test", name, project.id)
