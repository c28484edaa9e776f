"""Where a project's messages go: checked when it is set, so that the first one does not get lost."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.github.operations import place
from perfci.model import PerfciError
from perfci.net.checked_http import destination as web_address
from perfci.net.shapes import VISIBLE
from perfci.net.smtp_mail import recipient
from perfci.service.audit_context import AuditContext
from perfci.service.notify.deliver_notifications import SENDERS
from perfci.service.notify.quiet_hours import clock, send_at
from perfci.service.notify.senders import Means
from perfci.store.access import audit_log
from perfci.store.jobs import delivery_queue
from perfci.store.jobs.delivery_queue import WAITING, Delivery, Destination
from perfci.store.projects import Project, touch

CHECKS: Mapping[str, Callable[[str], object]] = {
    "slack": web_address,
    "webhook": web_address,
    "email": recipient,
    "github_issue": place,
}
"""What an address has to be, for each kind."""


def keep_destination(
    tx: Transaction, project: Project, wanted: Destination, by: AuditContext, *, secret: str | None
) -> bool:
    """Add or change a destination; a ``secret`` of None leaves the old one. True where it is new."""
    if wanted.kind not in CHECKS:
        raise PerfciError(f"{wanted.kind!r} is no kind of destination; expected {', '.join(CHECKS)}.")
    CHECKS[wanted.kind](wanted.address)
    _require_names(wanted)
    send_at(by.at, wanted.quiet, wanted.digest)
    for end in {"from", "to"} & wanted.quiet.keys():
        clock(wanted.quiet[end])
    known = delivery_queue.destination(tx, project.id, wanted.name)
    kept = known.secret if secret is None and known is not None else secret or ""
    if wanted.kind == "github_issue" and not kept:
        raise PerfciError("Issues are opened with a token of that repository: send it as the secret.")
    new = delivery_queue.keep_destination(tx, project.id, replace(wanted, secret=kept))
    _record(tx, project, "destination.set", wanted.name, by, {"kind": wanted.kind, "enabled": wanted.enabled})
    return new


def _require_names(wanted: Destination) -> None:
    """Names that a list can tell again, on one line each."""
    if len(wanted.name) > MOST_OF_NAME or not re.fullmatch(VISIBLE, wanted.name):
        raise PerfciError(f"The name of a destination is one line of at most {MOST_OF_NAME} visible characters.")
    globs = wanted.routes.get("benchmarks", ())
    if len(globs) > MOST_GLOBS or any(len(one) > MOST_OF_GLOB or not re.fullmatch(VISIBLE, one) for one in globs):
        raise PerfciError(
            f"A destination hears of at most {MOST_GLOBS} names of benchmarks, each at most {MOST_OF_GLOB} visible "
            "characters, with * for any."
        )


MOST_OF_NAME, MOST_OF_GLOB, MOST_GLOBS = 100, 200, 50


def drop_destination(tx: Transaction, project: Project, name: str, by: AuditContext) -> bool:
    """Remove a destination and what still waits for it; False where there is none."""
    there = delivery_queue.drop_destination(tx, project.id, name)
    if there:
        _record(tx, project, "destination.remove", name, by, {})
    return there


def try_destination(project: str, wanted: Destination, means: Means, now: datetime) -> str:
    """Send a message that only tries the way; answers what went wrong, or nothing."""
    body = {
        "project": project,
        "number": 0,
        "state": "new",
        "kind": "data",
        "headline": "This only tries whether messages arrive; nothing happened",
    }
    uid = secrets.token_hex(16)
    trial = Delivery(
        id=0, uid=uid, destination=wanted, project=project, incident_id=0, number=0, state_number=0, not_before=now,
        state=WAITING, claimed_by="", claim=0, batch="", attempts=0, sent_at=None, problem="", body=body, issue_url="",
    )  # fmt: skip
    try:
        SENDERS[wanted.kind]([trial], uid, means, now)
    except PerfciError as error:
        return str(error)
    return ""


def note_trial(tx: Transaction, project: Project, name: str, by: AuditContext) -> None:
    """Write down that somebody tries a destination: what he sends leaves this server in its name."""
    audit_log.record(
        tx, by.actor.name, "destination.test", name, at=by.at, project_id=project.id, request_id=by.request_id
    )


def _record(
    tx: Transaction, project: Project, action: str, name: str, by: AuditContext, detail: dict[str, object]
) -> None:
    audit_log.record(
        tx, by.actor.name, action, name, at=by.at, project_id=project.id, detail=detail, request_id=by.request_id
    )
    touch(tx, [project.id])
