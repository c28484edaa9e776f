"""Accept incidents whose changes were all expected, unless a person has changed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.report.incidents import incident_text as words
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.records import IncidentEvent, IncidentRecord
from perfci.verdicts.incidents.page_budget import PAGING_KINDS, BudgetedIncident

UNEXPECTED_CHANGE_REASON = "the regression is not the expected change"


@dataclass(frozen=True, slots=True)
class StateDecision:
    """State columns and events to write for an incident, if any."""

    columns: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[IncidentEvent, ...] = ()


def decide_new(budgeted: BudgetedIncident, now: datetime) -> StateDecision:
    """Decide the initial state of an incident: accepted, or new with a note on the expected change."""
    sentence = words.expected_change_sentence(budgeted)
    if budgeted.is_expected:
        event = IncidentEvent(now, SYSTEM_ACTOR, "state", IncidentState.NEW, IncidentState.ACCEPTED, sentence)
        return StateDecision({"state": IncidentState.ACCEPTED.value, "reason": sentence}, (event,))
    return StateDecision(
        events=(IncidentEvent(now, SYSTEM_ACTOR, "expected", text=sentence),) if sentence else ()
    )


def decide_existing(
    tx: Transaction, record: IncidentRecord, budgeted: BudgetedIncident, now: datetime
) -> StateDecision:
    """Decide the state of a stored incident after an evaluation; keep decisions of people."""
    if record.state is IncidentState.NEW and budgeted.is_expected:
        events = stored.load_events(tx, record.id)
        if all(event.actor == SYSTEM_ACTOR for event in events):
            sentence = words.expected_change_sentence(budgeted)
            return _build_transition(record, IncidentState.ACCEPTED, sentence, now)
    if is_auto_accepted(record) and budgeted.incident.kind in PAGING_KINDS and not budgeted.is_expected:
        return _build_transition(
            record,
            IncidentState.NEW,
            words.expected_change_sentence(budgeted) or UNEXPECTED_CHANGE_REASON,
            now,
        )
    if (
        budgeted.expected_change_match is not None
        and not budgeted.is_expected
        and not record.detail.get("expected_change")
    ):
        return StateDecision(
            events=(
                IncidentEvent(now, SYSTEM_ACTOR, "expected", text=words.expected_change_sentence(budgeted)),
            )
        )
    return StateDecision()


def is_auto_accepted(record: IncidentRecord) -> bool:
    """Return whether perfci itself accepted the incident and no person has triaged or regrouped it."""
    return record.state is IncidentState.ACCEPTED and record.triaged_at is None and not record.pinned


def _build_transition(
    record: IncidentRecord, state: IncidentState, reason: str, now: datetime
) -> StateDecision:
    columns = {
        "state": state.value,
        "state_number": record.state_number + 1,
        "reason": reason,
        "changed_at": now,
    }
    return StateDecision(columns, (IncidentEvent(now, SYSTEM_ACTOR, "state", record.state, state, reason),))
