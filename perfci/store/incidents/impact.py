"""Store and list which commit changed which series."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import IncidentState
from perfci.store.dialects import in_chunks, insert_or_ignore
from perfci.store.incidents.incident_members import IMPACTS, INCIDENTS
from perfci.store.incidents.records import ImpactRecord, IncidentMember
from perfci.store.queries.loaders import (
    load_series_by_ids,
    sha_starts_with,
)
from perfci.store.tables.incidents import ImpactRow
from perfci.store.tables.measurements import SeriesRow

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
