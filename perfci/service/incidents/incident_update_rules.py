"""Requests to update an incident: parse them, check the transition, and build columns and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from perfci.model import IncidentState, PerfciError
from perfci.net.api_schemas.incidents import IncidentPatch
from perfci.service.audit_context import AuditContext
from perfci.store.incidents.incident_records import IncidentEvent, IncidentRecord

KEEP: Final = "\0keep"
"""Placeholder of a field that an update keeps; an empty text or None empties it."""

S = IncidentState
ACTIVE_STATES = frozenset({S.NEW, S.INVESTIGATING, S.CULPRIT_FOUND})
CLOSED_STATES = frozenset({S.FIXED, S.ACCEPTED, S.REVERTED, S.ENVIRONMENT, S.INVALID, S.DUPLICATE})

ALLOWED_TRANSITIONS: Mapping[IncidentState, frozenset[IncidentState]] = {
    S.NEW: frozenset({S.INVESTIGATING, S.CULPRIT_FOUND, S.SNOOZED}) | CLOSED_STATES,
    S.INVESTIGATING: frozenset({S.NEW, S.CULPRIT_FOUND, S.SNOOZED}) | CLOSED_STATES,
    S.CULPRIT_FOUND: frozenset({S.NEW, S.INVESTIGATING, S.SNOOZED}) | CLOSED_STATES,
    S.SNOOZED: ACTIVE_STATES | CLOSED_STATES,
    **{closed: frozenset({S.NEW, S.INVESTIGATING}) | CLOSED_STATES - {closed} for closed in CLOSED_STATES},
}
"""Allowed next states of each state; closed incidents can always be reopened."""


@dataclass(frozen=True, slots=True)
class IncidentUpdate:
    """A requested change of an incident."""

    state: IncidentState | None = None
    assignee: str = KEEP
    due_at: datetime | str | None = KEEP
    snoozed_until: datetime | None = None
    reason: str = ""
    accepted_until: datetime | None = None
    duplicate_of: int | None = None
    issue_url: str = KEEP
    fix_sha: str = KEEP
    culprit_sha: str = KEEP
    note: str = ""
    is_undo: bool = False
    """Whether this undoes the last change of state, which skips the check of transitions."""


LINK_FIELDS = ("assignee", "due_at", "issue_url", "fix_sha", "culprit_sha")
"""Fields that an update may set independently of the state."""

UNDO_EVENT = "undo"
"""Event action that undoes the previous change of state."""

STATE_FIELDS = {"accepted_until": S.ACCEPTED, "snoozed_until": S.SNOOZED, "duplicate_of": S.DUPLICATE}
"""Fields that exist only in one state; the history keeps them for undo."""

NO_STATE_FIELDS = ("", dict.fromkeys(STATE_FIELDS))
"""Values of an update without a reason and state fields."""

FIELD_LABELS = {
    "accepted_until": "A day until which it is accepted",
    "snoozed_until": "An end of the snooze",
    "duplicate_of": "The number of another incident",
}

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
        return parse_incident_patch(IncidentPatch.model_validate(fields))
    except ValidationError as error:
        raise PerfciError(f"{FIELD_ERRORS[str(error.errors()[0]['loc'][0])]}.") from error


def parse_incident_patch(request: IncidentPatch) -> IncidentUpdate:
    """Build an update of exactly the fields that the request names; null empties a field."""
    values = {name: getattr(request, name) for name in request.model_fields_set}
    values |= {name: "" for name in TEXT_FIELDS if name in values and values[name] is None}
    if values.get("state"):
        values["state"] = IncidentState(values["state"])
    return IncidentUpdate(**values)


def build_update_columns(
    record: IncidentRecord, update: IncidentUpdate, now: datetime, original: IncidentRecord | None = None
) -> dict[str, Any]:
    """Validate an update and build its columns; ``original`` is the incident a duplicate repeats."""
    links = {name: getattr(update, name) for name in LINK_FIELDS}
    columns: dict[str, Any] = {
        k: value for k, value in links.items() if value not in (KEEP, getattr(record, k))
    }
    update = _complete_update(record, update)
    if _is_state_update(record, update):
        columns |= _build_state_columns(record, update, now, original)
    if columns and record.triaged_at is None:
        columns["triaged_at"] = now
    return columns


def _complete_update(record: IncidentRecord, update: IncidentUpdate) -> IncidentUpdate:
    """Complete an update within the same state with the current values of the fields it omits."""
    values = {name: getattr(update, name) for name in ("reason", *STATE_FIELDS)}
    if update.is_undo or update.state not in (None, record.state) or not any(values.values()):
        return update
    state_fields = {
        name: value for name, value in get_state_fields(record).items() if STATE_FIELDS[name] is record.state
    }
    current = {"reason": record.reason} | state_fields
    completed: dict[str, Any] = {name: value or current.get(name) for name, value in values.items()}
    return replace(update, state=record.state, **completed)


def _is_state_update(record: IncidentRecord, update: IncidentUpdate) -> bool:
    """Return whether an update changes the state, or the reason, end or original of the same state."""
    if update.state is None or update.state is not record.state:
        return update.state is not None
    values = (update.reason, get_state_fields(update))
    return (update.is_undo or values != NO_STATE_FIELDS) and values != (
        record.reason,
        get_state_fields(record),
    )


def get_state_fields(source: IncidentRecord | IncidentUpdate) -> dict[str, Any]:
    """Return the fields that belong to a state; the original of a duplicate is given by its number."""
    number = source.duplicate_of if isinstance(source, IncidentUpdate) else source.duplicate_number
    return {
        "accepted_until": source.accepted_until,
        "snoozed_until": source.snoozed_until,
        "duplicate_of": number,
    }


def _build_state_columns(
    record: IncidentRecord, update: IncidentUpdate, now: datetime, original: IncidentRecord | None
) -> dict[str, Any]:
    _require_allowed(record, update, now, original)
    assert update.state is not None
    columns = {
        "reason": update.reason,
        "accepted_until": update.accepted_until,
        "snoozed_until": update.snoozed_until,
        "duplicate_of": original.id if original is not None else None,
    }
    if update.state is record.state:
        return columns if original is not None else columns | {"duplicate_of": record.duplicate_of}
    return columns | {
        "state": update.state.value,
        "state_number": record.state_number + 1,
        "changed_at": now,
        "verified_at": None,
    }


def _require_allowed(
    record: IncidentRecord, update: IncidentUpdate, now: datetime, original: IncidentRecord | None
) -> None:
    """Raise an error unless the transition is allowed and has the fields of its state, and no others."""
    state = update.state
    assert state is not None
    another = state is not record.state
    if another and state not in ALLOWED_TRANSITIONS[record.state] and not update.is_undo:
        allowed = ", ".join(sorted(ALLOWED_TRANSITIONS[record.state]))
        raise PerfciError(
            f"Incident {record.number} is {record.state}: it can become {allowed}, not {state}."
        )
    for name, belongs_to in STATE_FIELDS.items():
        if getattr(update, name) is not None and state is not belongs_to:
            raise PerfciError(f"{FIELD_LABELS[name]} goes with the state {belongs_to}, not with {state}.")
    if state is S.ACCEPTED:
        # perfci itself accepts expected changes for good, which an undo or a new reason keeps.
        for_good = (update.is_undo or not another) and update.accepted_until is None
        holds = for_good or (update.accepted_until is not None and update.accepted_until > now)
        if not (update.reason and holds):
            raise PerfciError("Accepting needs a reason and a day in the future until which it holds.")
    if state is S.SNOOZED and not (update.snoozed_until and update.snoozed_until > now):
        raise PerfciError("Snoozing needs a moment in the future until which it holds.")
    if state is S.DUPLICATE and update.duplicate_of is None:
        raise PerfciError("A duplicate needs the number of the incident it repeats.")
    if original is not None and (original.id == record.id or original.duplicate_of is not None):
        raise PerfciError(
            f"Incident {original.number} cannot stand for {record.number}: it is that or a duplicate."
        )


def build_update_events(
    record: IncidentRecord, update: IncidentUpdate, context: AuditContext
) -> list[IncidentEvent]:
    """Build the history events of an update."""
    at, actor = context.at, context.actor.name
    events = []
    update = _complete_update(record, update)
    if update.state is not None and _is_state_update(record, update):
        action = UNDO_EVENT if update.is_undo else "state"
        events.append(IncidentEvent(at, actor, action, record.state, update.state, update.reason))
        before, after = get_state_fields(record), get_state_fields(update)
        events += [
            IncidentEvent(at, actor, "until", str(before[name] or ""), str(after[name] or ""), name)
            for name in STATE_FIELDS
            if before[name] != after[name]
        ]
    for name in LINK_FIELDS:
        action = "link" if name.endswith(("_url", "_sha")) else "assign"
        old, new = getattr(record, name), getattr(update, name)
        if new not in (KEEP, old):
            events.append(IncidentEvent(at, actor, action, str(old or ""), str(new or ""), name))
    if update.note:
        events.append(IncidentEvent(at, actor, "note", text=update.note))
    return events
