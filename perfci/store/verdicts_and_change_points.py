"""Save and load verdicts and change points. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import ChangePoint, TailVerdict, Verdict
from perfci.store.column_conversions import (
    CHANGE_POINT_COLUMNS,
    build_change_point,
    build_interval,
    build_tail_verdict,
    change_point_values,
    verdict_values,
)
from perfci.store.projects import mark_projects_changed
from perfci.store.queries.history_conditions import (
    PULL_REQUEST_KIND,
    Condition,
    current_verdict_condition,
    project_id_condition,
    pull_request_session_condition,
)
from perfci.store.queries.query_records import VerdictRecord, build_verdict_record
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import BenchmarkRow, ProjectRow, SeriesRow, SessionRow
from perfci.store.tables.verdicts import ChangePointRow, VerdictRow
from perfci.store.transactions import in_chunks
from perfci.store.writes import find_or_add_rows

CHANGE_POINTS = ChangePointRow.__table__
EVIDENCE_COLUMNS = ("noise", "p_value")
"""What the history says of a change beside its size; what fresh pairs measured has no such columns."""


def add_verdicts(
    tx: Session, project: str, session_uid: str, verdicts: Sequence[Verdict], created_at: datetime
) -> list[int]:
    """Store verdicts; an older verdict on the same question is marked superseded, never edited.

    A verdict of a pull request supersedes only such verdicts, and is superseded by any other.
    """
    project_id = find_or_add_rows.ensure_project_id(tx, project)
    session_id = find_or_add_rows.require_session_id(tx, session_uid)
    kind = tx.scalar(sa.select(SessionRow.kind).where(SessionRow.id == session_id))
    supersede = _supersede_answers_of_pulls if kind == PULL_REQUEST_KIND else _supersede_answers
    common = {"project_id": project_id, "session_id": session_id, "created_at": created_at}
    new = []
    for verdict in verdicts:
        series_id = find_or_add_rows.ensure_series_id(tx, project_id, verdict.series)
        new.append(_add_verdict(tx, verdict, {**common, "series_id": series_id}))
        supersede(tx, new[-1], _is_same_question(verdict, series_id))
    if new:
        mark_projects_changed(tx, [project_id])
    return new


def save_change_points(tx: Session, changes: Mapping[int, Sequence[ChangePoint]]) -> None:
    """Replace the change points of some series, given by id; unchanged ones are not written."""
    columns, names = CHANGE_POINTS.c, (*CHANGE_POINT_COLUMNS, *EVIDENCE_COLUMNS)
    query = sa.select(columns.series_id, *(columns[name] for name in names))
    stored: dict[int, list[tuple[object, ...]]] = defaultdict(list)
    for some in in_chunks(changes):
        of_series = query.where(columns.series_id.in_(some)).order_by(columns.id)
        for series_id, *move in tx.connection().execute(of_series):
            stored[series_id].append(tuple(move))
    new = {
        row_id: [(*change_point_values(change), change.noise, change.p_value) for change in points]
        for row_id, points in changes.items()
    }
    changed = [row_id for row_id, moves in new.items() if moves != stored.get(row_id, [])]
    for some in in_chunks(changed):
        tx.execute(sa.delete(CHANGE_POINTS).where(columns.series_id.in_(some)))
        of_series = sa.select(BenchmarkRow.project_id).join(SeriesRow).where(SeriesRow.id.in_(some))
        mark_projects_changed(tx, tx.scalars(of_series.distinct()))
    rows = [
        {"series_id": row_id, **dict(zip(names, move, strict=True))}
        for row_id in changed
        for move in new[row_id]
    ]
    if rows:
        tx.execute(sa.insert(CHANGE_POINTS), rows)


def _add_verdict(tx: Session, verdict: Verdict, columns: dict[str, Any]) -> int:
    row = columns | verdict_values(verdict)
    return tx.execute(sa.insert(VerdictRow.__table__).returning(VerdictRow.id), row).scalar_one()


def _is_same_question(verdict: Verdict, series_id: int) -> Condition:
    """Build the condition that a verdict is current and answers the same question."""
    return sa.and_(
        VerdictRow.series_id == series_id,
        VerdictRow.base == verdict.base,
        VerdictRow.head == verdict.head,
        VerdictRow.superseded_by.is_(None),
    )


def _supersede_answers(tx: Session, new: int, same_question: Condition) -> None:
    _supersede(tx, sa.and_(same_question, VerdictRow.id != new), new)


def _supersede_answers_of_pulls(tx: Session, new: int, same_question: Condition) -> None:
    """Supersede the older answers of pull requests, or the new one by an answer that is of none."""
    of_pull = pull_request_session_condition(VerdictRow.session_id)
    other = tx.scalar(sa.select(VerdictRow.id).where(same_question, ~of_pull))
    if other is None:
        _supersede_answers(tx, new, sa.and_(same_question, of_pull))
    else:
        _supersede(tx, VerdictRow.id == new, other)


def _supersede(tx: Session, superseded: Condition, by: int) -> None:
    tx.execute(sa.update(VerdictRow.__table__).where(superseded).values(superseded_by=by))


def load_verdict_records(
    tx: Session,
    project: str,
    *,
    base: str | None = None,
    head: str | None = None,
    series_id: int | None = None,
    current_only: bool = True,
    with_pull_requests: bool = False,
    limit: int | None = None,
) -> list[VerdictRecord]:
    """Load verdicts, newest first; superseded ones only without ``current_only``.

    Those of pull requests are for comparisons alone, and have to be asked for.
    """
    query = (
        sa.select(*VerdictRow.__table__.c, SessionRow.uid.label("session_uid"))
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .join(ProjectRow, VerdictRow.project_id == ProjectRow.id)
        .where(ProjectRow.slug == project)
        .order_by(VerdictRow.created_at.desc(), VerdictRow.id.desc())
        .limit(limit)
    )
    wanted = {VerdictRow.base: base, VerdictRow.head: head, VerdictRow.series_id: series_id}
    query = query.where(*(column == value for column, value in wanted.items() if value is not None))
    if current_only:
        query = query.where(current_verdict_condition())
    if not with_pull_requests:
        query = query.where(SessionRow.kind != PULL_REQUEST_KIND)
    rows = tx.connection().execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [build_verdict_record(row, series[row.series_id]) for row in rows]


def load_ids_of_verdicts_stored_before_tails(tx: Session, project: str) -> frozenset[int]:
    """Load the ids of the verdicts that were stored before verdicts on the tail were."""
    query = sa.select(VerdictRow.id).where(
        project_id_condition(VerdictRow.project_id, project), VerdictRow.tail_kind.is_(None)
    )
    return frozenset(tx.scalars(query))


def load_tail_verdicts_of_changes(tx: Session, changes: Mapping[int, ChangePoint]) -> dict[int, TailVerdict]:
    """Load what the tails did in the pairs that changes were measured on, by series id.

    Nothing for a change that is known from its history alone: no verdict has its interval.
    """
    columns = VerdictRow.__table__.c
    names = ("series_id", "head", "interval_lo", "interval_hi")
    tail_names = ("tail_kind", "tail_ratio", "tail_interval_lo", "tail_interval_hi")
    query = sa.select(*(columns[name] for name in (*names, *tail_names)))
    tails = {}
    for some in in_chunks(changes):
        rows = tx.execute(query.where(columns.series_id.in_(some), columns.tail_kind != "")).all()
        for row in rows:
            change, tail = changes[row.series_id], build_tail_verdict(row)
            interval = build_interval(row.interval_lo, row.interval_hi)
            if tail and interval and (row.head, interval) == (change.commit, change.interval):
                tails[row.series_id] = tail
    return tails


def load_change_points(
    tx: Session,
    project: str,
    series_id: int | None = None,
    *,
    last_good: str | None = None,
    commit: str | None = None,
) -> list[ChangePoint]:
    """Load the change points of a project, of one series, or after one commit and at another, in the order
    they were stored."""
    query = (
        sa.select(*ChangePointRow.__table__.c)
        .join(SeriesRow, ChangePointRow.series_id == SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(project_id_condition(BenchmarkRow.project_id, project))
        .order_by(ChangePointRow.id)
    )
    wanted = {
        ChangePointRow.series_id: series_id,
        ChangePointRow.last_good: last_good,
        ChangePointRow.commit: commit,
    }
    query = query.where(*(column == value for column, value in wanted.items() if value is not None))
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, {row.series_id for row in rows})
    return [
        replace(build_change_point(row, series[row.series_id]), noise=row.noise, p_value=row.p_value)
        for row in rows
    ]
