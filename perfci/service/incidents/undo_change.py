"""Take back the last change of state: one more line in the history, written to the revision somebody saw."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.incident_columns import PERFCI
from perfci.service.incidents.state_changes import UNDO, Change, with_state
from perfci.service.incidents.triage import Stale, change, incident_of
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.records import Event, IncidentRecord
from perfci.store.projects import Project


def undo(tx: Transaction, project: Project, number: int, revision: int, by: AuditContext) -> IncidentRecord:
    """Give an incident the state it had before a person changed it last; assignee, links and notes stay."""
    record = incident_of(tx, project, number)
    if record.revision != revision:
        raise Stale(record)
    history = stored.events(tx, record.id)
    if why := refusal(record, history):
        raise PerfciError(why)
    return change(tx, project, number, revision, _reverse(record, history), by)


def refusal(record: IncidentRecord, history: Sequence[Event]) -> str:
    """Why there is nothing to take back; empty where there is."""
    last = _last(history)
    if last is not None and last.after != record.state:
        return f"Incident {record.number} was merged with another one since: split takes its series out again."
    if last is None or not last.before:
        return f"Nobody changed the state of incident {record.number} so far."
    if last.what == UNDO:
        return f"The last change of state of incident {record.number} was taken back already: set the state you want."
    if last.actor == PERFCI:
        return f"Incident {record.number} was last changed by perfci itself ({last.text}): set the state you want."
    return ""


def undoable(record: IncidentRecord, history: Sequence[Event]) -> Event | None:
    """The change of state that could be taken back now."""
    return None if refusal(record, history) else _last(history)


def _reverse(record: IncidentRecord, history: Sequence[Event]) -> Change:
    """The state before the last change of it, with what belonged to that."""
    last = _last(history)
    assert last is not None
    with_it = {name: str(value) for name, value in with_state(record).items() if value and last.before == last.after}
    with_it |= {one.text: one.before for one in history if one.what == "until" and one.at == last.at}
    duplicate = with_it.get("duplicate_of", "")
    return Change(
        state=IncidentState(last.before),
        reason=_reason(history, last),
        accepted_until=_moment(with_it.get("accepted_until", "")),
        snoozed_until=_moment(with_it.get("snoozed_until", "")),
        duplicate_of=int(duplicate) if duplicate else None,
        back=True,
    )


def _reason(history: Sequence[Event], last: Event) -> str:
    """Why it was in the state it goes back to; the first line of a history gives the headline, which is no reason."""
    earlier = [one for one in history if _of_state(one) and one is not last]
    return earlier[-1].text if earlier and earlier[-1].before else ""


def _last(history: Sequence[Event]) -> Event | None:
    return next((one for one in reversed(history) if _of_state(one)), None)


def _of_state(event: Event) -> bool:
    return event.what in ("state", UNDO)


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
