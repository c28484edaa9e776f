"""Format notifications of incidents: a subject line and a short body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfci.model import IncidentState
from perfci.number_format import format_count
from perfci.report.escaping import make_printable

STATE_LABELS: Mapping[str, str] = {
    IncidentState.NEW: "new",
    IncidentState.INVESTIGATING: "investigating",
    IncidentState.CULPRIT_FOUND: "culprit found",
    IncidentState.FIXED: "fixed",
    IncidentState.ACCEPTED: "accepted",
    IncidentState.REVERTED: "reverted",
    IncidentState.ENVIRONMENT: "environment",
    IncidentState.INVALID: "invalid",
    IncidentState.DUPLICATE: "duplicate",
    IncidentState.SNOOZED: "snoozed",
}

NotificationContent = Mapping[str, Any]
"""The JSON fields of an incident that a notification was queued with."""


def notification_subject(notification: NotificationContent) -> str:
    """Format the subject: ``acme/tiny-lm #12 new: Step.time_step got worse, +8.0 %, at 3f2a9c8 Fuse it``."""
    incident = f"{notification['project']} #{notification['number']}"
    state = STATE_LABELS.get(notification["state"], notification["state"])
    return make_printable(f"{incident} {state}: {notification['headline']}", 200)


def notification_body(notification: NotificationContent, link: str = "") -> str:
    """Format the body: largest changes, candidate commits, the reason of the state and a link."""
    members, more = notification.get("members", ()), notification.get("more", 0)
    candidates = notification.get("candidate_commits", ())
    lines = [make_printable(notification["headline"], 300)]
    if notification.get("explanation"):
        lines.append(make_printable(notification["explanation"], 500))
    if notification.get("reason"):
        actor = make_printable(notification["actor"], 60)
        lines.append(f"{actor}: {make_printable(notification['reason'], 500)}")
    if members:
        lines += ["", *(f"  {make_printable(member, 200)}" for member in members)]
    if more:
        lines.append(f"  and {format_count(more, 'more change')}")
    if candidates:
        lines += ["", "Candidate commits, most likely first:"]
        lines += [f"  {make_printable(candidate, 120)}" for candidate in candidates]
    lines += ["", link or f"perfci incidents show {notification['number']}"]
    return "\n".join(lines)


def digest_subject(notifications: Sequence[NotificationContent]) -> str:
    """Format the subject of a digest of several notifications."""
    project = make_printable(notifications[0]["project"], 100)
    return f"{project}: {format_count(len(notifications), 'incident update')}"


def digest_body(notifications: Sequence[NotificationContent], links: Sequence[str]) -> str:
    """Join several notifications into one body."""
    pieces = [
        f"{notification_subject(notification)}\n\n{notification_body(notification, link)}"
        for notification, link in zip(notifications, links, strict=True)
    ]
    return "\n\n---\n\n".join(pieces)
