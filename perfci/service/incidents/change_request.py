"""What a form or a command line asks of an incident, by the rules that the API has for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from perfci.model import IncidentState, PerfciError
from perfci.net.shapes.incidents import IncidentChange
from perfci.service.incidents.state_changes import Change

SHA = "a commit's sha: 7 to 64 of the characters 0-9 and a-f"

MUST_BE: Mapping[str, str] = {
    "state": f"The state must be one of {', '.join(IncidentState)}",
    "assignee": "The assignee must be one line of at most 100 visible characters",
    "reason": "The reason must be one line of at most 500 visible characters",
    "note": "The note must be at most 4,000 visible characters",
    "issue_url": "The issue must be an address that begins with https:// or http://, of at most 500 characters",
    "fix_sha": f"What fixes it must be {SHA}",
    "culprit_sha": f"The culprit must be {SHA}",
    "duplicate_of": "What it is a duplicate of must be the number of an incident",
    "due_at": "It must be due at a moment with a time zone",
    "accepted_until": "It must be accepted until a moment with a time zone",
    "snoozed_until": "It must be snoozed until a moment with a time zone",
}
"""What each field of a change takes, for those who do not read patterns."""

TEXTS = ("assignee", "issue_url", "fix_sha", "culprit_sha", "note")
"""Fields that nothing empties."""


def asked_change(given: Mapping[str, Any]) -> Change:
    """A change from fields by their names in the API; ``PerfciError`` says what the first that cannot be must be."""
    try:
        return change_of(IncidentChange.model_validate(given))
    except ValidationError as error:
        raise PerfciError(f"{MUST_BE[str(error.errors()[0]['loc'][0])]}.") from error


def change_of(asked: IncidentChange) -> Change:
    """What the body names, and nothing else; null empties a field."""
    given = {name: getattr(asked, name) for name in asked.model_fields_set}
    given |= {name: "" for name in TEXTS if name in given and given[name] is None}
    if given.get("state"):
        given["state"] = IncidentState(given["state"])
    return Change(**given)
