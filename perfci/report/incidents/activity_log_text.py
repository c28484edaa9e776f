"""Format the activity log of an incident, one line per event."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from perfci.number_format import format_day

HEADINGS: Mapping[str, str] = {
    "state": "State",
    "undo": "Undone",
    "note": "Note",
    "sync": "Updated by new measurements",
    "verified": "Verified",
    "expected": "Expected change",
    "merge": "Merged",
    "split": "Split",
    "move_boundary": "Boundary moved",
    "assignee": "Assignee",
    "due_at": "Due",
    "accepted_until": "Accepted until",
    "snoozed_until": "Snoozed until",
    "duplicate_of": "Duplicate of",
    "issue_url": "Issue",
    "culprit_sha": "Culprit",
    "fix_sha": "Fixed by",
}

FIELD_EVENTS = ("assign", "link", "until")
"""Events that set one field, which their text names."""

TEXT_ONLY_EVENTS = ("note", "expected", "verified", "merge", "split")
"""Events that are shown as their text alone."""


def activity_heading(event_kind: str, text: str) -> str:
    """Return the heading of an event, such as ``State``; an unknown kind stays as it is."""
    return HEADINGS.get(text if event_kind in FIELD_EVENTS else event_kind, event_kind)


def activity_text(event_kind: str, before: str, after: str, text: str) -> str:
    """Format the change of an event: ``new → investigating: looks like the tokenizer``."""
    if event_kind in FIELD_EVENTS:
        return _format_field_value(text, after) or ("nobody" if text == "assignee" else "none")
    arrow = " → ".join(state.replace("_", " ") for state in (before, after) if state)
    if event_kind in TEXT_ONLY_EVENTS or not arrow:
        return text
    return f"{arrow}: {text}" if text else arrow


def _format_field_value(field: str, value: str) -> str:
    if field.endswith("_sha"):
        return value[:10]
    if field == "duplicate_of" and value:
        return f"#{value}"
    if value and field.endswith(("_at", "_until")):
        return format_day(datetime.fromisoformat(value))
    return value
