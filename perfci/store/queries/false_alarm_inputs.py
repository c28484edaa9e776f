"""Load what false alarms are counted from: all verdicts ever given, superseded ones included."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import groupby

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from perfci.model import Stage, VerdictKind
from perfci.store.column_conversions import EPOCH
from perfci.store.queries.history_conditions import (
    Condition,
    current_verdict_condition,
    project_id_condition,
)
from perfci.store.queries.query_records import VerdictCount, VerdictOutcome
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import RunRow, SeriesRow, SessionRow
from perfci.store.tables.verdicts import VerdictRow

CHANGED_KINDS = (VerdictKind.REGRESSION.value, VerdictKind.IMPROVEMENT.value)


def count_aa_verdicts(tx: Session, project: str, since: datetime = EPOCH) -> list[VerdictCount]:
    """Count the verdicts of A/A runs by series, suite, stage and kind."""
    suites = sa.select(RunRow.session_id, sa.func.min(RunRow.suite).label("suite")).group_by(
        RunRow.session_id
    )
    suite = suites.subquery()
    groups = (VerdictRow.series_id, suite.c.suite, VerdictRow.stage, VerdictRow.kind)
    query = (
        sa.select(*groups, sa.func.count())
        .select_from(VerdictRow)
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .outerjoin(suite, suite.c.session_id == VerdictRow.session_id)
        .where(
            project_id_condition(VerdictRow.project_id, project),
            VerdictRow.created_at >= since,
            _is_aa_verdict(),
        )
        .group_by(*groups)
        .order_by(*groups)
    )
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {series_id for series_id, *_ in rows})
    return [
        VerdictCount(series[series_id], name or "", Stage(stage), VerdictKind(kind), count)
        for series_id, name, stage, kind, count in rows
    ]


def load_verdicts_of_changed_pairs(
    tx: Session, project: str, since: datetime = EPOCH
) -> Iterator[list[VerdictOutcome]]:
    """Load the verdicts, oldest first, on each pair of different commits that ever had a change."""
    question = (VerdictRow.series_id, VerdictRow.base, VerdictRow.head)
    moved = aliased(VerdictRow)
    has_verdict = sa.exists().where(
        moved.series_id == VerdictRow.series_id,
        moved.base == VerdictRow.base,
        moved.head == VerdictRow.head,
        moved.kind.in_(CHANGED_KINDS),
    )
    query = (
        sa.select(*question, VerdictRow.stage, VerdictRow.kind)
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .where(
            project_id_condition(VerdictRow.project_id, project),
            VerdictRow.base != VerdictRow.head,
            VerdictRow.created_at >= since,
            has_verdict,
            ~_is_aa_verdict(),
        )
        .order_by(*question, VerdictRow.id)
    )
    for _, rows in groupby(tx.execute(query), key=lambda row: row[:3]):
        outcomes = [VerdictOutcome(Stage(row.stage), VerdictKind(row.kind)) for row in rows]
        if any(item.kind.value in CHANGED_KINDS for item in outcomes):
            yield outcomes


def count_aa_sessions(tx: Session, project: str, since: datetime = EPOCH) -> tuple[int, datetime | None]:
    """Count the A/A sessions with a verdict, and return the time of the last one."""
    latest = sa.func.max(VerdictRow.created_at, type_=VerdictRow.created_at.type)
    query = (
        sa.select(sa.func.count(VerdictRow.session_id.distinct()), latest)
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .where(
            project_id_condition(VerdictRow.project_id, project),
            VerdictRow.created_at >= since,
            SessionRow.kind == "aa",
        )
    )
    count, last = tx.execute(query).one()
    return count, last


def count_aa_verdicts_between(
    tx: Session, project: str, machine_ids: Collection[int], since: datetime, until: datetime
) -> tuple[int, int, int]:
    """Count the A/A sessions on some machines in a time, their current verdicts, and those of a change."""
    query = (
        sa.select(
            sa.func.count(VerdictRow.session_id.distinct()),
            sa.func.count(),
            sa.func.count(sa.case((VerdictRow.kind.in_(CHANGED_KINDS), 1))),
        )
        .select_from(VerdictRow)
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .join(SeriesRow, VerdictRow.series_id == SeriesRow.id)
        .where(
            project_id_condition(VerdictRow.project_id, project),
            SeriesRow.machine_id.in_(machine_ids),
            SessionRow.started_at >= since,
            SessionRow.started_at <= until,
            current_verdict_condition(),
            _is_aa_verdict(),
        )
    )
    runs, verdicts, changed = tx.execute(query).one()
    return runs, verdicts, changed


def _is_aa_verdict() -> Condition:
    """Build the condition that a verdict is of an A/A session, or of the confirmation of its candidate."""
    earlier, session = aliased(VerdictRow), aliased(SessionRow)
    was_candidate = (
        sa.exists()
        .where(
            earlier.session_id == session.id,
            session.kind == "aa",
            earlier.series_id == VerdictRow.series_id,
            earlier.base == VerdictRow.base,
            earlier.head == VerdictRow.head,
            earlier.id < VerdictRow.id,
        )
        .correlate(VerdictRow)
    )
    return sa.or_(SessionRow.kind == "aa", sa.and_(SessionRow.kind == "confirm", was_candidate))
