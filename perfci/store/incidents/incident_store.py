"""Store incidents with their members, impacts and events. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, IncidentState
from perfci.store.incidents.incident_records import (
    DATA_KIND,
    OPEN_STATES,
    PAGE,
    EvaluationRecord,
    IncidentEvent,
    IncidentMember,
    IncidentRecord,
)
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.incidents import (
    EvaluationRow,
    ImpactRow,
    IncidentEventRow,
    IncidentMemberRow,
    IncidentRow,
)
from perfci.store.tables.measurements import BenchmarkRow, SeriesRow
from perfci.store.transactions import CHUNK, build_insert_or_ignore, execute_and_count_rows, in_chunks

INCIDENTS, MEMBERS, IMPACTS = IncidentRow.__table__, IncidentMemberRow.__table__, ImpactRow.__table__
EVENTS, EVALUATIONS = IncidentEventRow.__table__, EvaluationRow.__table__
OTHER = INCIDENTS.alias("other")

INCIDENT_FIELDS = [column for column in INCIDENTS.c if column.name != "project_id"]
MEMBER_FIELDS = [MEMBERS.c[name] for name in IncidentMember.__dataclass_fields__]

MEASURED = INCIDENTS.c.kind != DATA_KIND
"""The incidents that come from measurements, closed ones and duplicates included."""

MISSING_DATA = sa.and_(INCIDENTS.c.kind == DATA_KIND, INCIDENTS.c.gone_at.is_(None))
"""The incidents whose data is still missing."""

UNRESOLVED = sa.and_(
    INCIDENTS.c.state.in_([state.value for state in OPEN_STATES]), INCIDENTS.c.gone_at.is_(None)
)
NEEDS_ATTENTION = sa.or_(
    INCIDENTS.c.kind == DATA_KIND, sa.and_(INCIDENTS.c.disposition == PAGE, INCIDENTS.c.ongoing)
)
OPEN = sa.and_(UNRESOLVED, NEEDS_ATTENTION)
"""The incidents that need a person."""

UNPAGED = sa.and_(OPEN, INCIDENTS.c.paged_at.is_(None))
"""The incidents that need a person and have not paged yet."""

MAX_NUMBER_ATTEMPTS = 20
"""Attempts to take the next number: each round, one of the concurrent writers succeeds."""


def load_incidents(
    tx: Session,
    project_id: int,
    *conditions: sa.ColumnElement[bool],
    states: Collection[IncidentState] = (),
    paged_since: datetime | None = None,
    with_detail: bool = True,
    limit: int | None = None,
) -> list[IncidentRecord]:
    """Load the incidents that meet all conditions, such as ``OPEN``, newest number first.

    Without ``states``, those in any state are loaded. ``with_detail`` can leave out their long texts.
    """
    chosen = [INCIDENTS.c.project_id == project_id, *conditions]
    if states:
        chosen.append(INCIDENTS.c.state.in_([state.value for state in states]))
    if paged_since is not None:
        chosen.append(INCIDENTS.c.paged_at > paged_since)
    fields = [column for column in INCIDENT_FIELDS if with_detail or column.name != "detail"]
    query = (
        sa.select(*fields, OTHER.c.number.label("duplicate_number"))
        .outerjoin(OTHER, INCIDENTS.c.duplicate_of == OTHER.c.id)
        .where(*chosen)
        .order_by(INCIDENTS.c.number.desc())
        .limit(limit)
    )
    rows = tx.execute(query).mappings()
    return [IncidentRecord(**{**row, "state": IncidentState(row["state"])}) for row in rows]


def find_incident(tx: Session, project_id: int, number: int) -> IncidentRecord | None:
    """Find an incident by its number."""
    return next(iter(load_incidents(tx, project_id, INCIDENTS.c.number == number)), None)


def find_incidents_by_number(
    tx: Session, project_id: int, numbers: Collection[int]
) -> dict[int, IncidentRecord]:
    """Find incidents by number; missing ones are left out."""
    records: dict[int, IncidentRecord] = {}
    for some in in_chunks(numbers):
        records |= {
            record.number: record for record in load_incidents(tx, project_id, INCIDENTS.c.number.in_(some))
        }
    return records


def find_incidents_by_id_prefix(tx: Session, project_id: int, prefix: str) -> list[IncidentRecord]:
    """Find incidents by a prefix of their derived id: old links, from before numbers, still work."""
    return load_incidents(tx, project_id, INCIDENTS.c.derived_id.startswith(prefix, autoescape=True))


def find_missing_data_incident(tx: Session, project_id: int, key: str) -> IncidentRecord | None:
    """Find the newest incident about the same missing data."""
    same = (INCIDENTS.c.kind == DATA_KIND, INCIDENTS.c.derived_id == key)
    return next(iter(load_incidents(tx, project_id, *same)), None)


def load_distinct_incident_states(tx: Session, project_id: int) -> set[IncidentState]:
    """Load the states that incidents of a project are in."""
    query = sa.select(INCIDENTS.c.state).where(INCIDENTS.c.project_id == project_id).distinct()
    return {IncidentState(state) for state in tx.scalars(query)}


def mark_unpaged_incidents_paged(tx: Session, project_id: int, now: datetime) -> list[IncidentRecord]:
    """Mark the incidents that need a person and have not paged yet; return them, oldest first."""
    records = load_incidents(tx, project_id, UNPAGED)[::-1]
    if records:
        unpaged = sa.update(INCIDENTS).where(INCIDENTS.c.project_id == project_id, UNPAGED)
        tx.execute(unpaged.values(paged_at=now))
    return records


def add_incident(tx: Session, project_id: int, columns: Mapping[str, Any]) -> IncidentRecord:
    """Add an incident under the next number of its project."""
    highest = sa.select(sa.func.max(INCIDENTS.c.number)).where(INCIDENTS.c.project_id == project_id)
    statement = build_insert_or_ignore(tx, IncidentRow)
    for _ in range(MAX_NUMBER_ATTEMPTS):
        number = (tx.scalar(highest) or 0) + 1
        if execute_and_count_rows(tx, statement, {**columns, "project_id": project_id, "number": number}):
            [record] = load_incidents(tx, project_id, INCIDENTS.c.number == number)
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


def load_members_by_incident(
    tx: Session, incident_ids: Collection[int], *, include_dropped: bool = False
) -> dict[int, list[IncidentMember]]:
    """Load the members of incidents, largest change first; ``include_dropped`` adds former members."""
    by_incident: dict[int, list[IncidentMember]] = {incident_id: [] for incident_id in incident_ids}
    query = sa.select(MEMBERS.c.incident_id, *MEMBER_FIELDS)
    query = query if include_dropped else query.where(MEMBERS.c.dropped_at.is_(None))
    for some in in_chunks(incident_ids):
        for incident_id, *member in (
            tx.connection().execute(query.where(MEMBERS.c.incident_id.in_(some))).all()
        ):
            by_incident[incident_id].append(IncidentMember(*member))
    for members in by_incident.values():
        members.sort(key=lambda item: (-abs(item.relative_change), item.series_id))
    return by_incident


def load_incident_numbers_of_series(tx: Session, series_ids: Collection[int]) -> dict[tuple[int, str], int]:
    """Load which incident a change belongs to, by series id and commit."""
    query = (
        sa.select(MEMBERS.c.series_id, MEMBERS.c.commit, INCIDENTS.c.number)
        .join(INCIDENTS, MEMBERS.c.incident_id == INCIDENTS.c.id)
        .where(MEMBERS.c.dropped_at.is_(None))
        .order_by(INCIDENTS.c.number)
    )
    numbers: dict[tuple[int, str], int] = {}
    for some in in_chunks(series_ids):
        for series_id, commit, number in tx.execute(query.where(MEMBERS.c.series_id.in_(some))):
            numbers[series_id, commit] = number
    return numbers


def load_incident_members(tx: Session, incident_id: int) -> list[IncidentMember]:
    """Load the members of one incident."""
    return load_members_by_incident(tx, [incident_id])[incident_id]


def load_member_change_points(tx: Session, members: Sequence[IncidentMember]) -> list[ChangePoint]:
    """Load members as change points of their series."""
    series = load_series_by_ids(tx, {member.series_id for member in members})
    return [member.to_change_point(series[member.series_id]) for member in members]


def add_incident_members(
    tx: Session, incident_id: int, members: Sequence[IncidentMember], *, is_new_incident: bool = False
) -> None:
    """Add members, or update existing ones; with ``is_new_incident`` none can exist."""
    if not members:
        return
    there = (
        []
        if is_new_incident
        else load_members_by_incident(tx, [incident_id], include_dropped=True)[incident_id]
    )
    existing_ids = {member.series_id for member in there}
    new = [
        {"incident_id": incident_id, **asdict(member)}
        for member in members
        if member.series_id not in existing_ids
    ]
    if new:
        tx.execute(build_insert_or_ignore(tx, IncidentMemberRow), new)
    old = [
        {f"new_{name}": value for name, value in asdict(member).items()}
        for member in members
        if member.series_id in existing_ids
    ]
    if old:
        values: dict[str, Any] = {
            name: sa.bindparam(f"new_{name}")
            for name in IncidentMember.__dataclass_fields__
            if name != "series_id"
        }
        chosen = (MEMBERS.c.incident_id == incident_id, MEMBERS.c.series_id == sa.bindparam("new_series_id"))
        tx.execute(sa.update(MEMBERS).where(*chosen).values(values), old)


def mark_members_dropped(tx: Session, incident_id: int, series_ids: Iterable[int], at: datetime) -> None:
    """Mark members as dropped; their rows stay."""
    for some in in_chunks(sorted(series_ids)):
        chosen = (MEMBERS.c.incident_id == incident_id, MEMBERS.c.series_id.in_(some))
        tx.execute(sa.update(MEMBERS).where(*chosen, MEMBERS.c.dropped_at.is_(None)).values(dropped_at=at))


def load_benchmarks_by_incident(
    tx: Session, incident_ids: Collection[int]
) -> dict[int, set[tuple[str, str]]]:
    """Load the benchmarks and metrics of the members of incidents."""
    benchmarks: dict[int, set[tuple[str, str]]] = defaultdict(set)
    query = (
        sa.select(MEMBERS.c.incident_id, BenchmarkRow.name, SeriesRow.metric)
        .join(SeriesRow, MEMBERS.c.series_id == SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(MEMBERS.c.dropped_at.is_(None))
        .distinct()
    )
    for some in in_chunks(incident_ids):
        for incident_id, name, metric in tx.execute(query.where(MEMBERS.c.incident_id.in_(some))):
            benchmarks[incident_id].add((name, metric))
    return benchmarks


def save_impacts(
    tx: Session, project_id: int, incident_id: int, members: Sequence[IncidentMember], at: datetime
) -> None:
    """Store what a commit did to each series.

    A row stays though the level recovers later; where more points attribute the step to another commit,
    the row of the same incident is updated.
    """
    if not members:
        return
    lines = sa.select(IMPACTS.c.series_id, IMPACTS.c.commit, IMPACTS.c.relative_change).where(
        IMPACTS.c.incident_id == incident_id
    )
    stored = {row.series_id: (row.commit, row.relative_change) for row in tx.execute(lines)}
    moved = [
        member
        for member in members
        if stored.get(member.series_id) != (member.commit, member.relative_change)
    ]
    for some in in_chunks([member.series_id for member in moved if member.series_id in stored]):
        tx.execute(
            sa.delete(IMPACTS).where(IMPACTS.c.incident_id == incident_id, IMPACTS.c.series_id.in_(some))
        )
    rows = [
        {
            "project_id": project_id,
            "incident_id": incident_id,
            "recorded_at": at,
            "series_id": member.series_id,
            "commit": member.commit,
            "relative_change": member.relative_change,
            "before": member.before,
            "after": member.after,
            "interval_lo": member.interval_lo,
            "interval_hi": member.interval_hi,
        }
        for member in moved
    ]
    if rows:
        tx.execute(build_insert_or_ignore(tx, ImpactRow), rows)


def set_impacts_accepted(tx: Session, incident_ids: Collection[int], accepted: bool) -> None:
    """Mark the impacts of incidents as accepted or not."""
    for some in in_chunks(incident_ids):
        tx.execute(sa.update(IMPACTS).where(IMPACTS.c.incident_id.in_(some)).values(accepted=accepted))


def save_evaluation(tx: Session, project_id: int, evaluation: EvaluationRecord) -> bool:
    """Replace the stored outcome of the last evaluation; return whether this one is the first."""
    columns = asdict(evaluation)
    stored = sa.update(EVALUATIONS).where(EVALUATIONS.c.project_id == project_id)
    if execute_and_count_rows(tx, stored.values(**columns)):
        return False
    tx.execute(build_insert_or_ignore(tx, EvaluationRow), {"project_id": project_id, **columns})
    return True


def was_project_evaluated(tx: Session, project_id: int) -> bool:
    """Whether a project was ever evaluated."""
    return tx.scalar(sa.select(EVALUATIONS.c.id).where(EVALUATIONS.c.project_id == project_id)) is not None


def find_last_evaluation(tx: Session, project_id: int) -> EvaluationRecord | None:
    """Load the outcome of the last evaluation."""
    row = tx.execute(sa.select(EVALUATIONS).where(EVALUATIONS.c.project_id == project_id)).first()
    return (
        None
        if row is None
        else EvaluationRecord(row.evaluated_at, row.pages_per_week, tuple(row.retests), tuple(row.creeps))
    )


def link_incident_to_issue(tx: Session, incident_id: int, url: str) -> None:
    """Link an incident to the issue opened for it, unless one is linked already."""
    chosen = (INCIDENTS.c.id == incident_id, INCIDENTS.c.issue_url == "")
    tx.execute(sa.update(INCIDENTS).where(*chosen).values(issue_url=url))
