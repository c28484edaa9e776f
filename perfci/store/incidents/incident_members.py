"""The series of an incident, and the ledger of what each commit did to each. The caller owns ``tx``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, IncidentState, Series
from perfci.store.conversions import series_identity
from perfci.store.dialects import CHUNK, in_chunks, insert_or_ignore
from perfci.store.incidents.records import ImpactRecord, IncidentMember
from perfci.store.queries.loaders import (
    benchmark_in_project,
    load_project_series,
    load_series,
    load_series_by_ids,
)
from perfci.store.tables.incidents import ImpactRow, IncidentMemberRow, IncidentRow
from perfci.store.tables.measurements import BenchmarkRow, SeriesRow
from perfci.store.writes.row_ids import core_table, find_series_ids, sha_starts_with

MEMBERS, IMPACTS, INCIDENTS = core_table(IncidentMemberRow), core_table(ImpactRow), core_table(IncidentRow)
FIELDS = [MEMBERS.c[name] for name in IncidentMember.__dataclass_fields__]

STATES_WITHOUT_IMPACT = (IncidentState.INVALID, IncidentState.ENVIRONMENT, IncidentState.DUPLICATE)
"""What is said of an incident whose commit did nothing, or has its line under another."""


def load_members_by_incident(
    tx: Session, incident_ids: Collection[int], *, include_dropped: bool = False
) -> dict[int, list[IncidentMember]]:
    """The members of some incidents, largest move first; ``dropped`` adds those that are none any more."""
    found: dict[int, list[IncidentMember]] = {incident_id: [] for incident_id in incident_ids}
    query = sa.select(MEMBERS.c.incident_id, *FIELDS)
    query = query if include_dropped else query.where(MEMBERS.c.dropped_at.is_(None))
    for some in in_chunks(incident_ids):
        for incident_id, *member in (
            tx.connection().execute(query.where(MEMBERS.c.incident_id.in_(some))).all()
        ):
            found[incident_id].append(IncidentMember(*member))
    for members in found.values():
        members.sort(key=lambda one: (-abs(one.relative_change), one.series_id))
    return found


def load_members(tx: Session, incident_id: int) -> list[IncidentMember]:
    return load_members_by_incident(tx, [incident_id])[incident_id]


def load_member_change_points(tx: Session, members: Sequence[IncidentMember]) -> list[ChangePoint]:
    """Members as change points of their series."""
    series = load_series_by_ids(tx, {member.series_id for member in members})
    return [member.to_change_point(series[member.series_id]) for member in members]


def add_members(
    tx: Session, incident_id: int, members: Sequence[IncidentMember], *, is_new_incident: bool = False
) -> None:
    """Add members, or write anew what is known of those that are there; the ``first`` ones meet nobody."""
    if not members:
        return
    there = (
        []
        if is_new_incident
        else load_members_by_incident(tx, [incident_id], include_dropped=True)[incident_id]
    )
    known = {member.series_id for member in there}
    new = [
        {"incident_id": incident_id, **asdict(member)} for member in members if member.series_id not in known
    ]
    if new:
        tx.execute(insert_or_ignore(tx, IncidentMemberRow), new)
    old = [_prefix_names(asdict(member)) for member in members if member.series_id in known]
    if old:
        values: dict[str, Any] = {
            name: sa.bindparam(f"new_{name}")
            for name in IncidentMember.__dataclass_fields__
            if name != "series_id"
        }
        chosen = (MEMBERS.c.incident_id == incident_id, MEMBERS.c.series_id == sa.bindparam("new_series_id"))
        tx.execute(sa.update(MEMBERS).where(*chosen).values(values), old)


def drop_members(tx: Session, incident_id: int, series_ids: Iterable[int], at: datetime) -> None:
    """Members no more; that they were is kept."""
    for some in in_chunks(sorted(series_ids)):
        chosen = (MEMBERS.c.incident_id == incident_id, MEMBERS.c.series_id.in_(some))
        tx.execute(sa.update(MEMBERS).where(*chosen, MEMBERS.c.dropped_at.is_(None)).values(dropped_at=at))


def save_impacts(
    tx: Session, project_id: int, incident_id: int, members: Sequence[IncidentMember], at: datetime
) -> None:
    """Write into the ledger what a commit did to each series.

    A line stays though the level comes back later; where more points show that the step came with another commit, the
    line of the same incident follows it.
    """
    if not members:
        return
    lines = sa.select(IMPACTS.c.series_id, IMPACTS.c.commit, IMPACTS.c.relative_change).where(
        IMPACTS.c.incident_id == incident_id
    )
    known = {row.series_id: (row.commit, row.relative_change) for row in tx.execute(lines)}
    moved = [
        member for member in members if known.get(member.series_id) != (member.commit, member.relative_change)
    ]
    for some in in_chunks([member.series_id for member in moved if member.series_id in known]):
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
    """Whether people live with what these incidents did."""
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
    """What commits did, the last recorded first, and where the next page begins; what was no move is left out.

    ``worse`` asks for what got worse alone, or better alone.
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
    lines = [
        ImpactRecord(
            commit=row.commit,
            series=series[row.series_id],
            relative_change=row.relative_change,
            before=row.before,
            after=row.after,
            incident=row.number,
            state=IncidentState(row.state) if row.state else None,
            recorded_at=row.recorded_at,
            accepted=row.accepted,
        )
        for row in rows[:limit]
    ]
    return lines, rows[limit - 1].id if len(rows) > limit else None


def load_member_benchmarks(tx: Session, incident_ids: Collection[int]) -> dict[int, set[tuple[str, str]]]:
    """The benchmarks and metrics of the members of some incidents."""
    found: dict[int, set[tuple[str, str]]] = defaultdict(set)
    query = (
        sa.select(MEMBERS.c.incident_id, BenchmarkRow.name, SeriesRow.metric)
        .join(SeriesRow, MEMBERS.c.series_id == SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(MEMBERS.c.dropped_at.is_(None))
        .distinct()
    )
    for some in in_chunks(incident_ids):
        for incident_id, name, metric in tx.execute(query.where(MEMBERS.c.incident_id.in_(some))):
            found[incident_id].add((name, metric))
    return found


def find_ids_of_series(tx: Session, project: str, series: Collection[Series]) -> dict[Series, int]:
    """The ids of stored series; many are sooner found among all of their project than each by its identity."""
    if len(series) > MAX_SERIES_BY_IDENTITY:
        return {one: row_id for row_id, one in load_project_series(tx, project).items() if one in series}
    identities = {series_identity(project, one): one for one in series}
    return {identities[identity]: row_id for identity, row_id in find_series_ids(tx, identities).items()}


MAX_SERIES_BY_IDENTITY = 500


def load_series_of_same_cells(tx: Session, project: str, series: Iterable[Series]) -> list[Series]:
    """All series of the same benchmarks and parameters as some: an address has to tell a series apart from these."""
    cells: dict[str, list[Any]] = defaultdict(list)
    for one in series:
        cells[one.benchmark.name].append(one.parameters)
    found: list[Series] = []
    for start in range(0, len(names := sorted(cells)), BENCHMARKS_PER_QUERY):
        some = names[start : start + BENCHMARKS_PER_QUERY]
        parameters = list(dict.fromkeys(one for name in some for one in cells[name]))[:CHUNK]
        chosen = (
            benchmark_in_project(project),
            BenchmarkRow.name.in_(some),
            SeriesRow.parameters.in_(parameters),
        )
        found += load_series(tx, *chosen).values()
    return found


BENCHMARKS_PER_QUERY = 50
"""Benchmarks whose parameters are asked for together: a page names few, and their parameters mostly agree."""


def _prefix_names(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {f"new_{name}": value for name, value in columns.items()}
