"""Store incidents: find, list, add and update them, and their events. The caller owns ``tx``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import IncidentState
from perfci.store.dialects import CHUNK, execute_and_count_rows, in_chunks, insert_or_ignore
from perfci.store.incidents.incident_records import (
    DATA_KIND,
    OPEN_STATES,
    PAGE,
    EvaluationRecord,
    IncidentEvent,
    IncidentRecord,
)
from perfci.store.queries.series_and_commits import sha_starts_with
from perfci.store.tables.incidents import EvaluationRow, IncidentEventRow, IncidentRow

INCIDENTS, EVENTS, EVALUATIONS = (
    IncidentRow.__table__,
    IncidentEventRow.__table__,
    EvaluationRow.__table__,
)
OTHER = INCIDENTS.alias("other")

_UNRESOLVED = sa.and_(
    INCIDENTS.c.state.in_([state.value for state in OPEN_STATES]), INCIDENTS.c.gone_at.is_(None)
)
_NEEDS_ATTENTION = sa.or_(
    INCIDENTS.c.kind == DATA_KIND, sa.and_(INCIDENTS.c.disposition == PAGE, INCIDENTS.c.ongoing)
)
_HELD = INCIDENTS.c.disposition.in_(["held_back", "weak"])
_WAITING = INCIDENTS.c.disposition == "waiting"
_SNOOZED = INCIDENTS.c.state == IncidentState.SNOOZED.value
_LISTED = sa.or_(_SNOOZED, sa.and_(_UNRESOLVED, sa.or_(_NEEDS_ATTENTION, _HELD, _WAITING)))
SECTIONS: Mapping[str, sa.ColumnElement[bool]] = {
    "open": sa.and_(_UNRESOLVED, _NEEDS_ATTENTION),
    "held": sa.and_(_UNRESOLVED, sa.not_(_NEEDS_ATTENTION), _HELD),
    "waiting": sa.and_(_UNRESOLVED, sa.not_(_NEEDS_ATTENTION), _WAITING),
    "snoozed": _SNOOZED,
    "rest": sa.not_(_LISTED),
}
"""Sections of the incidents page; every incident is in exactly one."""

MAX_NUMBER_ATTEMPTS = 20
"""Attempts to take the next number: each round, one of the concurrent writers succeeds."""


def find_incident(tx: Session, project_id: int, number: int) -> IncidentRecord | None:
    """Find an incident by its number."""
    return next(iter(_load_records(tx, project_id, INCIDENTS.c.number == number)), None)


def find_incidents_by_number(
    tx: Session, project_id: int, numbers: Collection[int]
) -> dict[int, IncidentRecord]:
    """Find incidents by number; missing ones are left out."""
    records: dict[int, IncidentRecord] = {}
    for some in in_chunks(numbers):
        records |= {
            record.number: record for record in _load_records(tx, project_id, INCIDENTS.c.number.in_(some))
        }
    return records


def find_incidents_by_derived_id(tx: Session, project_id: int, prefix: str) -> list[IncidentRecord]:
    """Find incidents by a prefix of their derived id: old links, from before numbers, still work."""
    return _load_records(tx, project_id, INCIDENTS.c.derived_id.startswith(prefix, autoescape=True))


def load_measured_incidents(tx: Session, project_id: int) -> list[IncidentRecord]:
    """Load all incidents that come from measurements, oldest first, closed ones and duplicates included."""
    return _load_records(tx, project_id, INCIDENTS.c.kind != DATA_KIND)[::-1]


def find_missing_data_incident(tx: Session, project_id: int, key: str) -> IncidentRecord | None:
    """Find the newest incident about the same missing data."""
    return next(
        iter(_load_records(tx, project_id, INCIDENTS.c.kind == DATA_KIND, INCIDENTS.c.derived_id == key)),
        None,
    )


def load_missing_data_incidents(tx: Session, project_id: int) -> list[IncidentRecord]:
    """Load the incidents whose data is still missing, newest first."""
    return _load_records(tx, project_id, INCIDENTS.c.kind == DATA_KIND, INCIDENTS.c.gone_at.is_(None))


def load_unpaged_incidents(tx: Session, project_id: int) -> list[IncidentRecord]:
    """Load the incidents that need a person and have not paged yet, oldest first."""
    fresh = INCIDENTS.c.paged_at.is_(None)
    return _load_records(tx, project_id, SECTIONS["open"], fresh)[::-1]


def load_incidents_in_states(
    tx: Session, project_id: int, states: Collection[IncidentState]
) -> list[IncidentRecord]:
    """Load the incidents of a project in some states."""
    return _load_records(tx, project_id, INCIDENTS.c.state.in_([state.value for state in states]))


def list_incidents(
    tx: Session,
    project_id: int,
    *,
    states: Collection[IncidentState] = (),
    kinds: Collection[str] = (),
    assignee: str | None = None,
    commit: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[IncidentRecord]:
    """List a page of incidents, newest number first, below the number ``before``."""
    chosen: list[sa.ColumnElement[bool]] = []
    chosen += [INCIDENTS.c.state.in_([state.value for state in states])] if states else []
    chosen += [INCIDENTS.c.kind.in_(list(kinds))] if kinds else []
    chosen += [INCIDENTS.c.assignee == assignee] if assignee is not None else []
    chosen += [sha_starts_with(INCIDENTS.c.commit, commit)] if commit is not None else []
    chosen += [INCIDENTS.c.number < before] if before is not None else []
    return _load_records(tx, project_id, *chosen, limit=limit)


def list_incidents_of_section(
    tx: Session, project_id: int, section: str, *, limit: int | None = None
) -> list[IncidentRecord]:
    """List the incidents of one section of a page, newest number first."""
    return _load_records(tx, project_id, SECTIONS[section], limit=limit)


def count_and_load_open_incidents(
    tx: Session, project_id: int, *, limit: int
) -> tuple[int, list[IncidentRecord]]:
    """Count the open incidents and load the newest, in one query."""
    chosen = (INCIDENTS.c.project_id == project_id, SECTIONS["open"])
    counted = sa.select(sa.func.count()).select_from(INCIDENTS).where(*chosen).scalar_subquery()
    query = sa.select(counted, *FIELDS).where(*chosen).order_by(INCIDENTS.c.number.desc()).limit(limit)
    rows = tx.execute(query).all()
    names = [column.name for column in FIELDS]
    return (rows[0][0] if rows else 0), [
        _build_record(dict(zip(names, row[1:], strict=True))) for row in rows
    ]


def count_incidents_by_section(tx: Session, project_id: int) -> dict[str, int]:
    """Count the incidents of each section."""
    counted = [sa.func.count(sa.case((condition, 1))).label(name) for name, condition in SECTIONS.items()]
    row = tx.execute(sa.select(*counted).where(INCIDENTS.c.project_id == project_id)).one()
    return dict(zip(SECTIONS, row, strict=True))


def load_incidents_paged_since(tx: Session, project_id: int, moment: datetime) -> list[IncidentRecord]:
    """Load the incidents that paged since a moment, without their detail, newest first."""
    plain = [column for column in FIELDS if column.name != "detail"]
    query = (
        sa.select(*plain)
        .where(INCIDENTS.c.project_id == project_id, INCIDENTS.c.paged_at > moment)
        .order_by(INCIDENTS.c.id.desc())
    )
    return [_build_record(row) for row in tx.execute(query).mappings()]


def add_incident(tx: Session, project_id: int, columns: Mapping[str, Any]) -> IncidentRecord:
    """Add an incident under the next number of its project."""
    highest = sa.select(sa.func.max(INCIDENTS.c.number)).where(INCIDENTS.c.project_id == project_id)
    statement = insert_or_ignore(tx, IncidentRow)
    for _ in range(MAX_NUMBER_ATTEMPTS):
        number = (tx.scalar(highest) or 0) + 1
        if execute_and_count_rows(tx, statement, {**columns, "project_id": project_id, "number": number}):
            [record] = _load_records(tx, project_id, INCIDENTS.c.number == number)
            return record
    raise RuntimeError(f"no number was free for an incident of project {project_id}")


def update_derived_columns(tx: Session, incident_id: int, columns: Mapping[str, Any]) -> None:
    """Store what an evaluation computed; it changes nothing people decided, so the revision stays."""
    tx.execute(sa.update(INCIDENTS).where(INCIDENTS.c.id == incident_id).values(**columns))


def update_derived_columns_if_unchanged(
    tx: Session, incident_id: int, revision: int, columns: Mapping[str, Any]
) -> bool:
    """Store what an evaluation computed; return False if a person changed the incident meanwhile."""
    seen = sa.update(INCIDENTS).where(INCIDENTS.c.id == incident_id, INCIDENTS.c.revision == revision)
    return bool(execute_and_count_rows(tx, seen.values(**columns, revision=revision)))


def update_incident(tx: Session, incident_id: int, revision: int, columns: Mapping[str, Any]) -> bool:
    """Store what a person decided at a revision; return False if the incident changed meanwhile."""
    changed = sa.update(INCIDENTS).where(INCIDENTS.c.id == incident_id, INCIDENTS.c.revision == revision)
    return bool(execute_and_count_rows(tx, changed.values(**columns, revision=INCIDENTS.c.revision + 1)))


def update_incidents(tx: Session, revisions: Mapping[int, int], columns: Mapping[str, Any]) -> set[int]:
    """Apply one change to many incidents (id to revision); return the ids of those updated."""
    changed: set[int] = set()
    pair = sa.tuple_(INCIDENTS.c.id, INCIDENTS.c.revision)
    pairs = sorted(revisions.items())
    for start in range(0, len(pairs), CHUNK // 2):
        some = sa.update(INCIDENTS).where(pair.in_(pairs[start : start + CHUNK // 2]))
        statement = some.values(**columns, revision=INCIDENTS.c.revision + 1).returning(INCIDENTS.c.id)
        changed.update(tx.scalars(statement))
    return changed


def add_incident_events(tx: Session, events: Sequence[tuple[int, IncidentEvent]]) -> None:
    """Append events to incidents, given by id; events are never removed."""
    if events:
        tx.execute(
            sa.insert(EVENTS), [{"incident_id": incident, **asdict(event)} for incident, event in events]
        )


def load_incident_events(tx: Session, incident_id: int) -> list[IncidentEvent]:
    """Load the events of one incident, oldest first."""
    query = sa.select(EVENTS).where(EVENTS.c.incident_id == incident_id).order_by(EVENTS.c.id)
    return [
        IncidentEvent(row.at, row.actor, row.action, row.before, row.after, row.text)
        for row in tx.execute(query)
    ]


def save_evaluation(tx: Session, project_id: int, evaluation: EvaluationRecord) -> None:
    """Replace the stored outcome of the last evaluation."""
    columns = asdict(evaluation)
    if not execute_and_count_rows(
        tx, sa.update(EVALUATIONS).where(EVALUATIONS.c.project_id == project_id).values(**columns)
    ):
        tx.execute(insert_or_ignore(tx, EvaluationRow), {"project_id": project_id, **columns})


def was_evaluated(tx: Session, project_id: int) -> bool:
    """Whether a project was ever evaluated."""
    return tx.scalar(sa.select(EVALUATIONS.c.id).where(EVALUATIONS.c.project_id == project_id)) is not None


def load_last_evaluation(tx: Session, project_id: int) -> EvaluationRecord | None:
    """Load the outcome of the last evaluation."""
    row = tx.execute(sa.select(EVALUATIONS).where(EVALUATIONS.c.project_id == project_id)).first()
    return (
        None
        if row is None
        else EvaluationRecord(row.evaluated_at, row.pages_per_week, tuple(row.retests), tuple(row.creeps))
    )


FIELDS = [column for column in INCIDENTS.c if column.name != "project_id"]


def _load_records(
    tx: Session, project_id: int, *conditions: sa.ColumnElement[bool], limit: int | None = None
) -> list[IncidentRecord]:
    """Load incidents, newest number first."""
    query = (
        sa.select(*FIELDS, OTHER.c.number.label("duplicate_number"))
        .outerjoin(OTHER, INCIDENTS.c.duplicate_of == OTHER.c.id)
        .where(INCIDENTS.c.project_id == project_id, *conditions)
        .order_by(INCIDENTS.c.number.desc())
        .limit(limit)
    )
    return [_build_record(row) for row in tx.execute(query).mappings()]


def _build_record(row: Any) -> IncidentRecord:
    return IncidentRecord(**{**row, "state": IncidentState(row["state"])})
