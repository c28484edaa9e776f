"""Parse requests to change an incident, from forms and the command line, by the rules of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from perfci.model import IncidentState, PerfciError
from perfci.net.shapes.incidents import IncidentPatch
from perfci.service.incidents.state_changes import IncidentUpdate

SHA_DESCRIPTION = "a commit's sha: 7 to 64 of the characters 0-9 and a-f"

FIELD_ERRORS: Mapping[str, str] = {
    "state": f"The state must be one of {', '.join(IncidentState)}",
    "assignee": "The assignee must be one line of at most 100 visible characters",
    "reason": "The reason must be one line of at most 500 visible characters",
    "note": "The note must be at most 4,000 visible characters",
    "issue_url": "The issue must be an address that begins with https:// or http://, "
    "of at most 500 characters",
    "fix_sha": f"What fixes it must be {SHA_DESCRIPTION}",
    "culprit_sha": f"The culprit must be {SHA_DESCRIPTION}",
    "duplicate_of": "What it is a duplicate of must be the number of an incident",
    "due_at": "It must be due at a moment with a time zone",
    "accepted_until": "It must be accepted until a moment with a time zone",
    "snoozed_until": "It must be snoozed until a moment with a time zone",
}
"""Error message of each field."""

TEXT_FIELDS = ("assignee", "issue_url", "fix_sha", "culprit_sha", "note")
"""Text fields, in which null stands for the empty text."""


def parse_incident_update(fields: Mapping[str, Any]) -> IncidentUpdate:
    """Parse fields by their API names; raise ``PerfciError`` for the first invalid one."""
    try:
        return build_incident_update(IncidentPatch.model_validate(fields))
    except ValidationError as error:
        raise PerfciError(f"{FIELD_ERRORS[str(error.errors()[0]['loc'][0])]}.") from error


def build_incident_update(request: IncidentPatch) -> IncidentUpdate:
    """Build an update of exactly the fields that the request names; null empties a field."""
    values = {name: getattr(request, name) for name in request.model_fields_set}
    values |= {name: "" for name in TEXT_FIELDS if name in values and values[name] is None}
    if values.get("state"):
        values["state"] = IncidentState(values["state"])
    return IncidentUpdate(**values)
