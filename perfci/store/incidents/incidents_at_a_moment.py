"""Load incidents as they were at a moment: from their events, which are never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import IncidentState
from perfci.store.incidents.incident_lists import CONFIRMED
from perfci.store.incidents.incident_records import DATA_KIND, OPEN_STATES, PAGE, IncidentRecord
from perfci.store.incidents.incident_store import EVENTS, INCIDENTS, load_incidents

STATE_EVENTS = ("state", "undo")
SETTLED_STATES = [state.value for state in IncidentState if state not in OPEN_STATES]


@dataclass(frozen=True, slots=True)
class IncidentAtMoment:
    """An incident with the state and the assignee that it had at a moment."""

    record: IncidentRecord
    state: IncidentState
    state_since: datetime
    assignee: str
    is_gone: bool

    @property
    def is_missing_data(self) -> bool:
        return self.record.kind == DATA_KIND

    @property
    def is_open(self) -> bool:
        """Whether a person was needed for it."""
        warrants_paging = self.is_missing_data or self.record.disposition == PAGE
        return self.state in OPEN_STATES and not self.is_gone and warrants_paging


def load_incidents_at_moment(
    tx: Session,
    project_id: int,
    moment: datetime,
    *,
    settled_since: datetime,
    confirmed_only: bool = False,
) -> list[IncidentAtMoment]:
    """Load the incidents first seen before a moment, newest number first, without those that were settled
    before ``settled_since`` and are so today."""
    long_settled = sa.and_(INCIDENTS.c.state.in_(SETTLED_STATES), INCIDENTS.c.changed_at < settled_since)
    is_current = sa.or_(INCIDENTS.c.gone_at.is_(None), INCIDENTS.c.gone_at >= settled_since)
    kept = [CONFIRMED] if confirmed_only else []
    chosen = (INCIDENTS.c.first_seen < moment, sa.not_(long_settled), is_current, *kept)
    records = load_incidents(tx, project_id, *chosen, with_detail=False)
    states, assignees = _load_states_and_assignees(tx, project_id, chosen, moment)
    return [
        _build_incident(record, states.get(record.id), assignees.get(record.id, ""), moment)
        for record in records
    ]


def _load_states_and_assignees(
    tx: Session, project_id: int, chosen: Sequence[sa.ColumnElement[bool]], moment: datetime
) -> tuple[dict[int, tuple[IncidentState, datetime]], dict[int, str]]:
    """The last state, with its time, and the last assignee of each incident before a moment."""
    is_state = EVENTS.c.action.in_(STATE_EVENTS)
    is_assignee = sa.and_(EVENTS.c.action == "assign", EVENTS.c.text == "assignee")
    query = (
        sa.select(EVENTS.c.incident_id, EVENTS.c.at, EVENTS.c.action, EVENTS.c.after)
        .join(INCIDENTS, EVENTS.c.incident_id == INCIDENTS.c.id)
        .where(INCIDENTS.c.project_id == project_id, *chosen, EVENTS.c.at < moment)
        .where(sa.or_(is_state, is_assignee))
        .order_by(EVENTS.c.id)
    )
    states: dict[int, tuple[IncidentState, datetime]] = {}
    assignees: dict[int, str] = {}
    for incident_id, at, action, after in tx.execute(query):
        if action in STATE_EVENTS:
            states[incident_id] = IncidentState(after), at
        else:
            assignees[incident_id] = after
    return states, assignees


def _build_incident(
    record: IncidentRecord, state: tuple[IncidentState, datetime] | None, assignee: str, moment: datetime
) -> IncidentAtMoment:
    current, since = state or (IncidentState.NEW, record.first_seen)
    is_gone = record.gone_at is not None and record.gone_at < moment
    return IncidentAtMoment(record, current, since, assignee, is_gone)
