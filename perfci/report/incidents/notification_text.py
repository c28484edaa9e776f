"""What people are told about an incident, wherever they are told: a line, and a short text below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfci.model import IncidentState
from perfci.report.escaping import printable
from perfci.report.number_format import counting

STATES: Mapping[str, str] = {
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

Notice = Mapping[str, Any]


def subject(notice: Notice) -> str:
    """``acme/tiny-lm #12 new: 2 series got worse at 3f2a9c8 Fuse the optimizer step``."""
    return printable(f"{_name(notice)} {STATES.get(notice['state'], notice['state'])}: {notice['headline']}", 200)


def text(notice: Notice, link: str = "") -> str:
    """What moved most, who is suspected, why it changed its state, and where to go."""
    members, more = notice.get("members", ()), notice.get("more", 0)
    lines = [printable(notice["headline"], 300)]
    lines += [printable(notice["explanation"], 500)] if notice.get("explanation") else []
    lines += [f"{printable(notice['actor'], 60)}: {printable(notice['reason'], 500)}"] if notice.get("reason") else []
    lines += ["", *(f"  {printable(one, 200)}" for one in members)] if members else []
    lines += [f"  and {counting(more, 'more change')}"] if more else []
    suspects = [printable(one, 120) for one in notice.get("suspects", ())]
    lines += ["", "Suspects, likeliest first:", *(f"  {one}" for one in suspects)] if suspects else []
    lines += ["", link or f"perfci alerts show {notice['number']}"]
    return "\n".join(lines)


def digest_subject(notices: Sequence[Notice]) -> str:
    return f"{printable(notices[0]['project'], 100)}: {counting(len(notices), 'change')} of incidents"


def digest_text(notices: Sequence[Notice], links: Sequence[str]) -> str:
    """Several notices as one text."""
    pieces = [f"{subject(one)}\n\n{text(one, link)}" for one, link in zip(notices, links, strict=True)]
    return "\n\n---\n\n".join(pieces)


def _name(notice: Notice) -> str:
    return f"{notice['project']} #{notice['number']}"
