"""An incident of which all was announced is accepted by itself, unless a person had a hand in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.report.incidents import incident_text as words
from perfci.service.incidents.incident_columns import PERFCI
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.records import Event, IncidentRecord
from perfci.verdicts.incidents.page_budget import ASKING, Told

ELSEWHERE = "what got worse is not what was announced"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be written of the state of an incident, if anything."""

    columns: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


def at_first(told: Told, now: datetime) -> Decision:
    """How an incident begins: accepted for good, or with what it came to beside what was announced."""
    said = words.announced(told)
    if told.announced:
        event = Event(now, PERFCI, "state", IncidentState.NEW, IncidentState.ACCEPTED, said)
        return Decision({"state": IncidentState.ACCEPTED.value, "reason": said}, (event,))
    return Decision(events=(Event(now, PERFCI, "announced", text=said),) if said else ())


def later(tx: Transaction, record: IncidentRecord, told: Told, now: datetime) -> Decision:
    """What more points, or an announcement that came after them, change; a person's decision they never do."""
    if record.state is IncidentState.NEW and told.announced and _untouched(tx, record):
        return _switched(record, IncidentState.ACCEPTED, words.announced(told), now)
    if is_foretold(record) and told.incident.kind in ASKING and not told.announced:
        return _switched(record, IncidentState.NEW, words.announced(told) or ELSEWHERE, now)
    if told.answer is not None and not told.announced and not record.detail.get("announced"):
        return Decision(events=(Event(now, PERFCI, "announced", text=words.announced(told)),))
    return Decision()


def is_foretold(record: IncidentRecord) -> bool:
    """Whether perfci itself accepted it: whoever else does so answers it, and what people take apart is theirs."""
    return record.state is IncidentState.ACCEPTED and record.triaged_at is None and not record.pinned


def _untouched(tx: Transaction, record: IncidentRecord) -> bool:
    return all(event.actor == PERFCI for event in stored.events(tx, record.id))


def _switched(record: IncidentRecord, state: IncidentState, why: str, now: datetime) -> Decision:
    columns = {"state": state.value, "state_number": record.state_number + 1, "reason": why, "changed_at": now}
    return Decision(columns, (Event(now, PERFCI, "state", record.state, state, why),))
