"""Store the member series of incidents. The caller owns ``tx``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint
from perfci.store.dialects import in_chunks, insert_or_ignore
from perfci.store.incidents.records import IncidentMember
from perfci.store.queries.loaders import (
    load_series_by_ids,
)
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
