"""Page of commit impacts: which commit changed which series, newest first."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, IncidentState, Series
from perfci.store.column_conversions import build_interval
from perfci.store.incidents.incident_records import ImpactRecord
from perfci.store.queries.series_commits_machines import load_series_by_ids, sha_prefix_condition
from perfci.store.tables.incidents import ImpactRow, IncidentRow
from perfci.store.tables.measurements import SeriesRow

IMPACTS, INCIDENTS = ImpactRow.__table__, IncidentRow.__table__

STATES_WITHOUT_IMPACT = (IncidentState.INVALID, IncidentState.ENVIRONMENT, IncidentState.DUPLICATE)
"""States of incidents whose commit changed nothing, or whose impact belongs to another incident."""

IS_WORSE = (IMPACTS.c.after > IMPACTS.c.before) == (SeriesRow.direction == "lower")


def load_commit_impacts_page(
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
    query = query if commit is None else query.where(sha_prefix_condition(IMPACTS.c.commit, commit))
    if worse is not None:
        joined = query.join(SeriesRow, IMPACTS.c.series_id == SeriesRow.id)
        query = joined.where(IS_WORSE if worse else sa.not_(IS_WORSE))
    rows = tx.execute(query if before is None else query.where(IMPACTS.c.id < before)).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    impacts = [_to_impact_record(row, series[row.series_id]) for row in rows[:limit]]
    return impacts, rows[limit - 1].id if len(rows) > limit else None


def _to_impact_record(row: sa.Row[Any], series: Series) -> ImpactRecord:
    return ImpactRecord(
        change=ChangePoint(
            series, row.commit, "", row.before, row.after, build_interval(row.interval_lo, row.interval_hi)
        ),
        incident=row.number,
        state=IncidentState(row.state) if row.state else None,
        recorded_at=row.recorded_at,
        accepted=row.accepted,
    )
