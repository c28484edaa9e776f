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
from perfci.store.incidents.records import LedgerLine, Member
from perfci.store.queries.loaders import load_series, of_project, series_by_ids, series_by_project
from perfci.store.tables.incidents import IncidentMemberRow, IncidentRow, LedgerRow
from perfci.store.tables.measurements import BenchmarkRow, SeriesRow
from perfci.store.writes.row_ids import sha_begins, stored_series, table

MEMBERS, LEDGER, INCIDENTS = table(IncidentMemberRow), table(LedgerRow), table(IncidentRow)
FIELDS = [MEMBERS.c[name] for name in Member.__dataclass_fields__]

NO_CODE = (IncidentState.INVALID, IncidentState.ENVIRONMENT, IncidentState.DUPLICATE)
"""What is said of an incident whose commit did nothing, or has its line under another."""


def members_of(tx: Session, incident_ids: Collection[int], *, dropped: bool = False) -> dict[int, list[Member]]:
    """The members of some incidents, largest move first; ``dropped`` adds those that are none any more."""
    found: dict[int, list[Member]] = {incident_id: [] for incident_id in incident_ids}
    query = sa.select(MEMBERS.c.incident_id, *FIELDS)
    query = query if dropped else query.where(MEMBERS.c.dropped_at.is_(None))
    for some in in_chunks(incident_ids):
        for incident_id, *member in tx.connection().execute(query.where(MEMBERS.c.incident_id.in_(some))).all():
            found[incident_id].append(Member(*member))
    for members in found.values():
        members.sort(key=lambda one: (-abs(one.rel), one.series_id))
    return found


def members(tx: Session, incident_id: int) -> list[Member]:
    return members_of(tx, [incident_id])[incident_id]


def changes(tx: Session, found: Sequence[Member]) -> list[ChangePoint]:
    """Members as change points of their series."""
    series = series_by_ids(tx, {member.series_id for member in found})
    return [member.change(series[member.series_id]) for member in found]


def add_members(tx: Session, incident_id: int, found: Sequence[Member], *, first: bool = False) -> None:
    """Add members, or write anew what is known of those that are there; the ``first`` ones meet nobody."""
    if not found:
        return
    there = [] if first else members_of(tx, [incident_id], dropped=True)[incident_id]
    known = {member.series_id for member in there}
    new = [{"incident_id": incident_id, **asdict(member)} for member in found if member.series_id not in known]
    if new:
        tx.execute(insert_or_ignore(tx, IncidentMemberRow), new)
    old = [_renamed(asdict(member)) for member in found if member.series_id in known]
    if old:
        values: dict[str, Any] = {
            name: sa.bindparam(f"new_{name}") for name in Member.__dataclass_fields__ if name != "series_id"
        }
        chosen = (MEMBERS.c.incident_id == incident_id, MEMBERS.c.series_id == sa.bindparam("new_series_id"))
        tx.execute(sa.update(MEMBERS).where(*chosen).values(values), old)


def drop_members(tx: Session, incident_id: int, series_ids: Iterable[int], at: datetime) -> None:
    """Members no more; that they were is kept."""
    for some in in_chunks(sorted(series_ids)):
        chosen = (MEMBERS.c.incident_id == incident_id, MEMBERS.c.series_id.in_(some))
        tx.execute(sa.update(MEMBERS).where(*chosen, MEMBERS.c.dropped_at.is_(None)).values(dropped_at=at))


def record_moves(tx: Session, project_id: int, incident_id: int, found: Sequence[Member], at: datetime) -> None:
    """Write into the ledger what a commit did to each series.

    A line stays though the level comes back later; where more points show that the step came with another commit, the
    line of the same incident follows it.
    """
    if not found:
        return
    lines = sa.select(LEDGER.c.series_id, LEDGER.c.commit, LEDGER.c.rel).where(LEDGER.c.incident_id == incident_id)
    known = {row.series_id: (row.commit, row.rel) for row in tx.execute(lines)}
    moved = [member for member in found if known.get(member.series_id) != (member.commit, member.rel)]
    for some in in_chunks([member.series_id for member in moved if member.series_id in known]):
        tx.execute(sa.delete(LEDGER).where(LEDGER.c.incident_id == incident_id, LEDGER.c.series_id.in_(some)))
    rows = [
        {
            "project_id": project_id,
            "incident_id": incident_id,
            "recorded_at": at,
            "series_id": member.series_id,
            "commit": member.commit,
            "rel": member.rel,
            "before": member.before,
            "after": member.after,
        }
        for member in moved
    ]
    if rows:
        tx.execute(insert_or_ignore(tx, LedgerRow), rows)


def accept_moves(tx: Session, incident_ids: Collection[int], accepted: bool) -> None:
    """Whether people live with what these incidents did."""
    for some in in_chunks(incident_ids):
        tx.execute(sa.update(LEDGER).where(LEDGER.c.incident_id.in_(some)).values(accepted=accepted))


WORSE = (LEDGER.c.after > LEDGER.c.before) == (SeriesRow.direction == "lower")


def ledger(
    tx: Session,
    project_id: int,
    *,
    commit: str | None = None,
    worse: bool | None = None,
    before: int | None = None,
    limit: int = 100,
) -> tuple[list[LedgerLine], int | None]:
    """What commits did, the last recorded first, and where the next page begins; what was no move is left out.

    ``worse`` asks for what got worse alone, or better alone.
    """
    query = (
        sa.select(LEDGER, INCIDENTS.c.number, INCIDENTS.c.state)
        .outerjoin(INCIDENTS, LEDGER.c.incident_id == INCIDENTS.c.id)
        .where(LEDGER.c.project_id == project_id)
        .where(sa.or_(INCIDENTS.c.state.is_(None), INCIDENTS.c.state.not_in([state.value for state in NO_CODE])))
        .order_by(LEDGER.c.id.desc())
        .limit(limit + 1)
    )
    query = query if commit is None else query.where(sha_begins(LEDGER.c.commit, commit))
    if worse is not None:
        joined = query.join(SeriesRow, LEDGER.c.series_id == SeriesRow.id)
        query = joined.where(WORSE if worse else sa.not_(WORSE))
    rows = tx.execute(query if before is None else query.where(LEDGER.c.id < before)).all()
    series = series_by_ids(tx, {row.series_id for row in rows})
    lines = [
        LedgerLine(
            commit=row.commit,
            series=series[row.series_id],
            rel=row.rel,
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


def benchmarks_of(tx: Session, incident_ids: Collection[int]) -> dict[int, set[tuple[str, str]]]:
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


def ids_of_series(tx: Session, project: str, series: Collection[Series]) -> dict[Series, int]:
    """The ids of stored series; many are sooner found among all of their project than each by its identity."""
    if len(series) > FEW_SERIES:
        return {one: row_id for row_id, one in series_by_project(tx, project).items() if one in series}
    identities = {series_identity(project, one): one for one in series}
    return {identities[identity]: row_id for identity, row_id in stored_series(tx, identities).items()}


FEW_SERIES = 500


def namesakes(tx: Session, project: str, series: Iterable[Series]) -> list[Series]:
    """All series of the same benchmarks and parameters as some: an address has to tell a series apart from these."""
    cells: dict[str, list[Any]] = defaultdict(list)
    for one in series:
        cells[one.benchmark.name].append(one.parameters)
    found: list[Series] = []
    for start in range(0, len(names := sorted(cells)), FEW_NAMES):
        some = names[start : start + FEW_NAMES]
        parameters = list(dict.fromkeys(one for name in some for one in cells[name]))[:CHUNK]
        chosen = (of_project(project), BenchmarkRow.name.in_(some), SeriesRow.parameters.in_(parameters))
        found += load_series(tx, *chosen).values()
    return found


FEW_NAMES = 50
"""Benchmarks whose parameters are asked for together: a page names few, and their parameters mostly agree."""


def _renamed(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {f"new_{name}": value for name, value in columns.items()}
