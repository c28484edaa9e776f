"""Read the form that changes incidents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from typing import Any

from perfci.model import IncidentState, PerfciError
from perfci.service.incidents.incident_update_rules import IncidentUpdate, parse_incident_update

DAYS_ACCEPTED = 30
"""Days that an acceptance holds whose form names none."""

DATE_FIELDS = ("due_at", "accepted_until", "snoozed_until")
END_OF_DAY = time(23, 59, 59)
TEXT_FIELDS = ("assignee", "reason", "issue_url", "fix_sha", "culprit_sha", "note")


@dataclass(frozen=True, slots=True)
class RejectedForm:
    """Why a form was rejected, with the typed values and the ticked incidents, which the page shows again."""

    message: str
    typed: Mapping[str, str] = field(default_factory=dict)
    selected: frozenset[int] = frozenset()


NOT_REJECTED = RejectedForm("")


def get_edited_form_values(form: Mapping[str, str]) -> dict[str, str]:
    """Return the values that differ from those the form was loaded with (its fields ``was.<name>``)."""
    names = ("state", "duplicate_of", *TEXT_FIELDS, *DATE_FIELDS)
    return {name: form[name] for name in names if name in form and form[name] != form.get(f"was.{name}", "")}


def parse_change_form(form: Mapping[str, str], now: datetime) -> IncidentUpdate:
    """Return the update that a form asks for.

    A value equal to its ``was.<name>`` changes nothing; a field that was emptied is cleared; a date means
    the end of that day in UTC. An acceptance without a day holds for ``DAYS_ACCEPTED``.
    """
    form = {name: value for name, value in form.items() if value != form.get(f"was.{name}")}
    changes: dict[str, Any] = {
        # Browsers send CRLF from a textarea.
        name: form[name].strip().replace("\r\n", "\n")
        for name in TEXT_FIELDS
        if name in form
    }
    for name in DATE_FIELDS:
        if not (text := form.get(name, "")):
            continue
        try:
            changes[name] = datetime.combine(datetime.fromisoformat(text).date(), END_OF_DAY, UTC)
        except ValueError as error:
            raise PerfciError(f"{text!r} is no day; expected for example 2026-05-04.") from error
    if form.get("due_at") == "":
        changes["due_at"] = None
    if not changes.get("note"):
        changes.pop("note", None)
    if form.get("duplicate_of", "").strip():
        changes["duplicate_of"] = form["duplicate_of"].strip().lstrip("#")
    if form.get("state"):
        changes["state"] = form["state"]
    if form.get("state") == IncidentState.ACCEPTED and "accepted_until" not in changes:
        last_day = (now + timedelta(days=DAYS_ACCEPTED)).date()
        changes["accepted_until"] = datetime.combine(last_day, END_OF_DAY, UTC)
    return parse_incident_update(changes)


def parse_revision(form: Mapping[str, str]) -> int:
    """Return the revision of the incident that the form was made from."""
    text = form.get("revision", "")
    if not text.isdecimal() or len(text) > 9:
        raise PerfciError("The form does not say which revision it was made from: load the page again.")
    return int(text)
