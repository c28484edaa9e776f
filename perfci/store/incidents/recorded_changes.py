"""Load the recorded changes of a project: which commit moved which series, and its incident."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Commit, IncidentState, Series
from perfci.store.column_conversions import build_interval
from perfci.store.incidents.commit_impacts_page import (
    IMPACTS,
    INCIDENTS,
    IS_WORSE,
    STATES_WITHOUT_IMPACT,
)
from perfci.store.queries.measured_places import EVERYWHERE, PlaceFilter
from perfci.store.queries.project_status import CONFIRMED
from perfci.store.queries.series_commits_machines import (
    load_commits_by_id,
    load_series_by_ids,
    sha_prefix_condition,
)
from perfci.store.series_archive import not_archived_condition
from perfci.store.tables.measurements import CommitRow, SeriesRow
from perfci.store.tables.verdicts import VerdictRow

CHANGED_AT = sa.func.coalesce(
    CommitRow.committed_at, IMPACTS.c.recorded_at, type_=CommitRow.committed_at.type
)
"""The date of a change: of its commit, else when it was recorded."""

IS_CONFIRMED = (
    sa.select(VerdictRow.id)
    .where(VerdictRow.series_id == IMPACTS.c.series_id, VerdictRow.head == IMPACTS.c.commit, CONFIRMED)
    .correlate(IMPACTS)
    .exists()
)
"""Whether an A/B rerun confirmed a change at its commit."""


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which recorded changes: empty values keep all; ``since`` and ``until`` are dates of commits.

    Changes of series that somebody archived are left out, unless they are asked for.
    """

    worse: bool | None = None
    confirmed_only: bool = False
    commit: str = ""
    branch: str = ""
    since: datetime | None = None
    until: datetime | None = None
    places: PlaceFilter = EVERYWHERE
    series_id: int | None = None
    with_archived: bool = False


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """The change of one series by one commit, whether an A/B rerun confirmed it, and its incident."""

    series_id: int
    change: ChangePoint
    worse: bool
    confirmed: bool
    commit: Commit | None
    changed_at: datetime
    incident: int | None = None
    state: IncidentState | None = None
    assignee: str = ""
    accepted: bool = False


class ChangeCounts(NamedTuple):
    """How many recorded changes a filter keeps."""

    total: int
    worse: int
    confirmed: int


def load_recorded_changes(
    tx: Session, project_id: int, chosen: ChangeFilter, *, limit: int, offset: int = 0
) -> list[RecordedChange]:
    """Load recorded changes: newest commit first, and of one commit the worst first."""
    query = (
        _select_changes(
            project_id,
            chosen,
            IMPACTS,
            CommitRow.id.label("commit_id"),
            INCIDENTS.c.number,
            INCIDENTS.c.state,
            INCIDENTS.c.assignee,
            CHANGED_AT.label("changed_at"),
            IS_WORSE.label("worse"),
            IS_CONFIRMED.label("confirmed"),
        )
        .order_by(
            sa.desc("changed_at"),
            CommitRow.position.desc(),
            IMPACTS.c.commit,
            sa.desc("worse"),
            sa.func.abs(IMPACTS.c.relative_change).desc(),
            IMPACTS.c.id,
        )
        .limit(limit)
        .offset(offset)
    )
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    commits = load_commits_by_id(tx, ids={row.commit_id for row in rows} - {None})
    return [_build_change(row, series[row.series_id], commits.get(row.commit_id)) for row in rows]


def load_change_keys(tx: Session, project_id: int) -> list[tuple[int, str, str]]:
    """Load of every recorded change the id and identity of its series, and its commit."""
    query = sa.select(IMPACTS.c.series_id, SeriesRow.identity, IMPACTS.c.commit).join(
        SeriesRow, IMPACTS.c.series_id == SeriesRow.id
    )
    return [tuple(row) for row in tx.connection().execute(query.where(IMPACTS.c.project_id == project_id))]


def count_recorded_changes(tx: Session, project_id: int, chosen: ChangeFilter) -> ChangeCounts:
    """Count recorded changes, those for the worse, and those an A/B rerun confirmed."""
    counted = [
        sa.func.count(),
        sa.func.count(sa.case((IS_WORSE, 1))),
        sa.func.count(sa.case((IS_CONFIRMED, 1))),
    ]
    return ChangeCounts(*tx.execute(_select_changes(project_id, chosen, *counted)).one())


def _select_changes(project_id: int, chosen: ChangeFilter, *columns: Any) -> sa.Select[Any]:
    query = (
        sa.select(*columns)
        .select_from(IMPACTS)
        .join(SeriesRow, IMPACTS.c.series_id == SeriesRow.id)
        .outerjoin(INCIDENTS, IMPACTS.c.incident_id == INCIDENTS.c.id)
        .outerjoin(
            CommitRow,
            sa.and_(
                CommitRow.project_id == IMPACTS.c.project_id,
                CommitRow.sha == IMPACTS.c.commit,
                CommitRow.dirty.is_(False),
            ),
        )
        .where(
            IMPACTS.c.project_id == project_id,
            sa.or_(
                INCIDENTS.c.state.is_(None),
                INCIDENTS.c.state.not_in([state.value for state in STATES_WITHOUT_IMPACT]),
            ),
        )
    )
    return query.where(*_filter_conditions(chosen))


def _filter_conditions(chosen: ChangeFilter) -> Sequence[sa.ColumnElement[bool]]:
    conditions = list(chosen.places.conditions())
    if not chosen.with_archived and chosen.series_id is None:
        conditions.append(not_archived_condition(IMPACTS.c.series_id))
    if chosen.worse is not None:
        conditions.append(IS_WORSE if chosen.worse else sa.not_(IS_WORSE))
    if chosen.confirmed_only:
        conditions.append(IS_CONFIRMED)
    if chosen.commit:
        conditions.append(sha_prefix_condition(IMPACTS.c.commit, chosen.commit))
    if chosen.branch:
        conditions.append(CommitRow.branch == chosen.branch)
    if chosen.since is not None:
        conditions.append(chosen.since <= CHANGED_AT)
    if chosen.until is not None:
        conditions.append(chosen.until > CHANGED_AT)
    if chosen.series_id is not None:
        conditions.append(IMPACTS.c.series_id == chosen.series_id)
    return conditions


def _build_change(row: Any, series: Series, commit: Commit | None) -> RecordedChange:
    interval = build_interval(row.interval_lo, row.interval_hi)
    return RecordedChange(
        series_id=row.series_id,
        change=ChangePoint(series, row.commit, "", row.before, row.after, interval),
        worse=bool(row.worse),
        confirmed=bool(row.confirmed),
        commit=commit,
        changed_at=row.changed_at,
        incident=row.number,
        state=IncidentState(row.state) if row.state else None,
        assignee=row.assignee or "",
        accepted=row.accepted,
    )
