"""Find the archived series: those not measured any more (their machine is retired, or their benchmark gone),
and those that somebody archived.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.derived_values import load_or_derive
from perfci.store.queries.history_conditions import (
    HISTORY_KINDS,
    project_id_condition,
    restrict_to_history,
)
from perfci.store.series_archive import load_archived_by_hand_ids
from perfci.store.tables.measurements import BenchmarkRow, ResultRow, RunRow, SeriesRow, SessionRow
from perfci.store.tables.series_points import SeriesPointsRow

ARCHIVED_AFTER = timedelta(days=90)
"""A series whose last run began so long before the last run of its project is archived."""


def load_archived_series_ids(tx: Session, project: str, now: datetime | None = None) -> frozenset[int]:
    """Load the ids of the archived series of a project.

    A new result brings one back that is not measured any more, and nobody but a person one that somebody
    archived. A run that claims to have begun after ``now`` is no measure of how old the others are.
    """

    def derive() -> frozenset[int]:
        return _find_archived_series(tx, project, now) | load_archived_by_hand_ids(tx, project)

    return load_or_derive(tx, project, "archived series", derive)


def _find_archived_series(tx: Session, project: str, now: datetime | None) -> frozenset[int]:
    runs = (
        sa.select(RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(project_id_condition(SessionRow.project_id, project), SessionRow.kind.in_(HISTORY_KINDS))
    )
    latest = sa.func.max(RunRow.started_at, type_=RunRow.started_at.type)
    begun = runs if now is None else runs.where(RunRow.started_at <= now)
    newest: datetime | None = tx.scalar(begun.with_only_columns(latest))
    if newest is None:
        return frozenset()
    # Stored points name the newest result of a series; of the others the results of these days are read.
    stored = (
        sa.select(SeriesPointsRow.series_id, RunRow.started_at)
        .join(ResultRow, ResultRow.id == SeriesPointsRow.result_id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .where(project_id_condition(SeriesPointsRow.project_id, project), SeriesPointsRow.stale.is_(False))
    )
    last: dict[int, datetime] = dict(tx.execute(stored).all())
    start = newest - ARCHIVED_AFTER
    archived = {row_id for row_id, at in last.items() if at < start}
    unread = set(tx.scalars(_select_series_with_history(project))) - last.keys()
    if unread:
        recent = sa.select(ResultRow.series_id).where(
            ResultRow.run_id.in_(runs.where(RunRow.started_at >= start))
        )
        archived |= unread - set(tx.scalars(recent.distinct()))
    return frozenset(archived)


def _select_series_with_history(project: str) -> sa.Select[int]:
    history = restrict_to_history(sa.select(ResultRow.id)).where(ResultRow.series_id == SeriesRow.id)
    return (
        sa.select(SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(
            project_id_condition(BenchmarkRow.project_id, project),
            SeriesRow.renamed_to.is_(None),
            history.correlate(SeriesRow).exists(),
        )
    )
