"""How an incident may go on: the states, what each needs, and what a change writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import AuditContext
from perfci.store.incidents.records import Event, IncidentRecord

KEEP: Final = "\0keep"
"""Stands for a field that a change leaves as it is; an empty text and None empty it."""

S = IncidentState
WORKING = frozenset({S.NEW, S.INVESTIGATING, S.CULPRIT_FOUND})
CLOSED = frozenset({S.FIXED, S.ACCEPTED, S.REVERTED, S.ENVIRONMENT, S.INVALID, S.DUPLICATE})

ALLOWED: Mapping[IncidentState, frozenset[IncidentState]] = {
    S.NEW: frozenset({S.INVESTIGATING, S.CULPRIT_FOUND, S.SNOOZED}) | CLOSED,
    S.INVESTIGATING: frozenset({S.NEW, S.CULPRIT_FOUND, S.SNOOZED}) | CLOSED,
    S.CULPRIT_FOUND: frozenset({S.NEW, S.INVESTIGATING, S.SNOOZED}) | CLOSED,
    S.SNOOZED: WORKING | CLOSED,
    **{closed: frozenset({S.NEW, S.INVESTIGATING}) | CLOSED - {closed} for closed in CLOSED},
}
"""From each state the ones it may be followed by; what was closed may always be opened again."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become different."""

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
    back: bool = False
    """Whether this takes back the last change of state, whatever it was before."""


LINKS = ("assignee", "due_at", "issue_url", "fix_sha", "culprit_sha")
"""What a change may set beside the state."""


def columns_of(
    record: IncidentRecord, wanted: Change, now: datetime, original: IncidentRecord | None = None
) -> dict[str, Any]:
    """What a change writes, checked against what the incident is; ``original`` is what a duplicate repeats."""
    told = {name: getattr(wanted, name) for name in LINKS}
    columns: dict[str, Any] = {k: value for k, value in told.items() if value not in (KEEP, getattr(record, k))}
    wanted = _completed(record, wanted)
    if _settles(record, wanted):
        columns |= _state_columns(record, wanted, now, original)
    if columns and record.triaged_at is None:
        columns["triaged_at"] = now
    return columns


def _completed(record: IncidentRecord, wanted: Change) -> Change:
    """A change that leaves the state as it is names only what of it becomes different; the rest stays."""
    given = {name: getattr(wanted, name) for name in ("reason", *WITH_STATE)}
    if wanted.back or wanted.state not in (None, record.state) or not any(given.values()):
        return wanted
    known = {name: value for name, value in with_state(record).items() if WITH_STATE[name] is record.state}
    kept = {"reason": record.reason} | known
    said: dict[str, Any] = {name: value or kept.get(name) for name, value in given.items()}
    return replace(wanted, state=record.state, **said)


def _settles(record: IncidentRecord, wanted: Change) -> bool:
    """Whether there is to be another state, or another reason, end or original of the same one."""
    if wanted.state is None or wanted.state is not record.state:
        return wanted.state is not None
    given = (wanted.reason, with_state(wanted))
    return (wanted.back or given != NOTHING_WITH_IT) and given != (record.reason, with_state(record))


def with_state(one: IncidentRecord | Change) -> dict[str, Any]:
    """What belongs to the state of an incident, or is to belong to it; a duplicate by the number of its original."""
    number = one.duplicate_of if isinstance(one, Change) else one.duplicate_number
    return {"accepted_until": one.accepted_until, "snoozed_until": one.snoozed_until, "duplicate_of": number}


def _state_columns(
    record: IncidentRecord, wanted: Change, now: datetime, original: IncidentRecord | None
) -> dict[str, Any]:
    state = wanted.state
    assert state is not None
    another = state is not record.state
    if another and state not in ALLOWED[record.state] and not wanted.back:
        known = ", ".join(sorted(ALLOWED[record.state]))
        raise PerfciError(f"Incident {record.number} is {record.state}: it can become {known}, not {state}.")
    for name, belongs_to in WITH_STATE.items():
        if getattr(wanted, name) is not None and state is not belongs_to:
            raise PerfciError(f"{SAID[name]} goes with the state {belongs_to}, not with {state}.")
    for_good = (wanted.back or not another) and wanted.accepted_until is None  # as perfci does what was announced
    if state is S.ACCEPTED and not (
        wanted.reason and (for_good or (wanted.accepted_until and wanted.accepted_until > now))
    ):
        raise PerfciError("Accepting needs a reason and a day in the future until which it holds.")
    if state is S.SNOOZED and not (wanted.snoozed_until and wanted.snoozed_until > now):
        raise PerfciError("Snoozing needs a moment in the future until which it holds.")
    if state is S.DUPLICATE and wanted.duplicate_of is None:
        raise PerfciError("A duplicate needs the number of the incident it repeats.")
    if original is not None and (original.id == record.id or original.duplicate_of is not None):
        raise PerfciError(f"Incident {original.number} cannot stand for {record.number}: it is that or a duplicate.")
    columns = {
        "reason": wanted.reason,
        "accepted_until": wanted.accepted_until,
        "snoozed_until": wanted.snoozed_until,
        "duplicate_of": original.id if original is not None else None,
    }
    if not another:
        return columns if original is not None else columns | {"duplicate_of": record.duplicate_of}
    begun = {"state": state.value, "state_number": record.state_number + 1, "changed_at": now, "verified_at": None}
    return columns | begun


UNDO = "undo"
"""The line of a history that takes back the change of state before it."""

WITH_STATE = {"accepted_until": S.ACCEPTED, "snoozed_until": S.SNOOZED, "duplicate_of": S.DUPLICATE}
"""What comes and goes with a state; the history keeps it, so that a state can be taken back to what it was."""

NOTHING_WITH_IT = ("", dict.fromkeys(WITH_STATE))
"""No reason, no end, no original."""

SAID = {
    "accepted_until": "A day until which it is accepted",
    "snoozed_until": "A moment until which it sleeps",
    "duplicate_of": "The number of another incident",
}


def events_of(record: IncidentRecord, wanted: Change, by: AuditContext) -> list[Event]:
    found = []
    wanted = _completed(record, wanted)
    if wanted.state is not None and _settles(record, wanted):
        what = UNDO if wanted.back else "state"
        found.append(Event(by.at, by.actor.name, what, record.state, wanted.state, wanted.reason))
        found += _events_with_state(record, wanted, by)
    for name in LINKS:
        what = "link" if name.endswith(("_url", "_sha")) else "assign"
        before, after = getattr(record, name), getattr(wanted, name)
        if after not in (KEEP, before):
            found.append(Event(by.at, by.actor.name, what, str(before or ""), str(after or ""), name))
    if wanted.note:
        found.append(Event(by.at, by.actor.name, "note", text=wanted.note))
    return found


def _events_with_state(record: IncidentRecord, wanted: Change, by: AuditContext) -> list[Event]:
    before, after = with_state(record), with_state(wanted)
    return [
        Event(by.at, by.actor.name, "until", str(before[name] or ""), str(after[name] or ""), name)
        for name in WITH_STATE
        if before[name] != after[name]
    ]
