"""Store the member series of incidents and their impacts: which commit changed which series."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, IncidentState, Series
from perfci.store.dialects import in_chunks, insert_or_ignore
from perfci.store.incidents.incident_records import ImpactRecord, IncidentMember
from perfci.store.queries.series_and_commits import load_series_by_ids, sha_starts_with
from perfci.store.tables.incidents import ImpactRow, IncidentMemberRow, IncidentRow
from perfci.store.tables.measurements import BenchmarkRow, SeriesRow

MEMBERS, IMPACTS, INCIDENTS = IncidentMemberRow.__table__, ImpactRow.__table__, IncidentRow.__table__
FIELDS = [MEMBERS.c[name] for name in IncidentMember.__dataclass_fields__]


def load_members_by_incident(
    tx: Session, incident_ids: Collection[int], *, include_dropped: bool = False
) -> dict[int, list[IncidentMember]]:
    """Load the members of incidents, largest change first; ``include_dropped`` adds former members."""
    by_incident: dict[int, list[IncidentMember]] = {incident_id: [] for incident_id in incident_ids}
    query = sa.select(MEMBERS.c.incident_id, *FIELDS)
    query = query if include_dropped else query.where(MEMBERS.c.dropped_at.is_(None))
    for some in in_chunks(incident_ids):
        for incident_id, *member in (
            tx.connection().execute(query.where(MEMBERS.c.incident_id.in_(some))).all()
        ):
            by_incident[incident_id].append(IncidentMember(*member))
    for members in by_incident.values():
        members.sort(key=lambda item: (-abs(item.relative_change), item.series_id))
    return by_incident


def load_members(tx: Session, incident_id: int) -> list[IncidentMember]:
    """Load the members of one incident."""
    return load_members_by_incident(tx, [incident_id])[incident_id]


def load_member_change_points(tx: Session, members: Sequence[IncidentMember]) -> list[ChangePoint]:
    """Load members as change points of their series."""
    series = load_series_by_ids(tx, {member.series_id for member in members})
    return [member.to_change_point(series[member.series_id]) for member in members]


def add_members(
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
        tx.execute(insert_or_ignore(tx, IncidentMemberRow), new)
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


def drop_members(tx: Session, incident_id: int, series_ids: Iterable[int], at: datetime) -> None:
    """Mark members as dropped; their rows stay."""
    for some in in_chunks(sorted(series_ids)):
        chosen = (MEMBERS.c.incident_id == incident_id, MEMBERS.c.series_id.in_(some))
        tx.execute(sa.update(MEMBERS).where(*chosen, MEMBERS.c.dropped_at.is_(None)).values(dropped_at=at))


def load_member_benchmarks(tx: Session, incident_ids: Collection[int]) -> dict[int, set[tuple[str, str]]]:
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


STATES_WITHOUT_IMPACT = (IncidentState.INVALID, IncidentState.ENVIRONMENT, IncidentState.DUPLICATE)
"""States of incidents whose commit changed nothing, or whose impact belongs to another incident."""


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
        }
        for member in moved
    ]
    if rows:
        tx.execute(insert_or_ignore(tx, ImpactRow), rows)


def set_impacts_accepted(tx: Session, incident_ids: Collection[int], accepted: bool) -> None:
    """Mark the impacts of incidents as accepted or not."""
    for some in in_chunks(incident_ids):
        tx.execute(sa.update(IMPACTS).where(IMPACTS.c.incident_id.in_(some)).values(accepted=accepted))


IS_WORSE = (IMPACTS.c.after > IMPACTS.c.before) == (SeriesRow.direction == "lower")


def list_impacts(
    tx: Session,
    project_id: int,
    *,
    commit: str | None = None,
    worse: bool | None = None,
    before: int | None = None,
    limit: int = 100,
) -> tuple[list[ImpactRecord], int | None]:
    """List a page of impacts, newest first, and the start of the next page; ``worse`` filters by
    direction.
    """
    query = (
        sa.select(IMPACTS, INCIDENTS.c.number, INCIDENTS.c.state)
        .outerjoin(INCIDENTS, IMPACTS.c.incident_id == INCIDENTS.c.id)
        .where(IMPACTS.c.project_id == project_id)
        .where(
            sa.or_(
                INCIDENTS.c.state.is_(None),
                INCIDENTS.c.state.not_in([state.value for state in STATES_WITHOUT_IMPACT]),
            )
        )
        .order_by(IMPACTS.c.id.desc())
        .limit(limit + 1)
    )
    query = query if commit is None else query.where(sha_starts_with(IMPACTS.c.commit, commit))
    if worse is not None:
        joined = query.join(SeriesRow, IMPACTS.c.series_id == SeriesRow.id)
        query = joined.where(IS_WORSE if worse else sa.not_(IS_WORSE))
    rows = tx.execute(query if before is None else query.where(IMPACTS.c.id < before)).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    impacts = [_to_impact_record(row, series[row.series_id]) for row in rows[:limit]]
    return impacts, rows[limit - 1].id if len(rows) > limit else None


def _to_impact_record(row: sa.Row[Any], series: Series) -> ImpactRecord:
    return ImpactRecord(
        commit=row.commit,
        series=series,
        relative_change=row.relative_change,
        before=row.before,
        after=row.after,
        incident=row.number,
        state=IncidentState(row.state) if row.state else None,
        recorded_at=row.recorded_at,
        accepted=row.accepted,
    )
