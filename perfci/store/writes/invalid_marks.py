"""Mark runs and points as invalid, and take such marks back. The caller owns the transaction ``tx``.

A mark is a row; the columns ``invalid`` of runs, results and verdicts follow from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import InvalidMark
from perfci.store.projects import mark_projects_changed
from perfci.store.queries.history_conditions import HISTORY_KINDS
from perfci.store.tables.measurements import CommitRow, InvalidMarkRow, ResultRow, RunRow, SessionRow
from perfci.store.tables.verdicts import VerdictRow
from perfci.store.writes.series_points import mark_points_of_run_stale

MARKS = InvalidMarkRow.__table__


def set_run_mark(tx: Session, project_id: int, run_id: int, mark: InvalidMark | None) -> bool:
    """Mark a run as invalid, or with None as valid again; return False where that is how it is."""
    marked = _find_marks(tx, run_id, None)
    if (mark is None) == (not marked):
        return False
    _replace_marks(tx, project_id, run_id, None, mark)
    tx.execute(sa.update(RunRow.__table__).where(RunRow.id == run_id).values(invalid=mark is not None))
    mark_points_of_run_stale(tx, run_id)
    _mark_verdicts(tx, run_id)
    mark_projects_changed(tx, [project_id])
    return True


def set_result_mark(
    tx: Session, project_id: int, run_id: int, series_id: int, mark: InvalidMark | None
) -> bool:
    """Mark the result of one series in a run as invalid, or with None as valid again."""
    marked = _find_marks(tx, run_id, series_id)
    if (mark is None) == (not marked):
        return False
    _replace_marks(tx, project_id, run_id, series_id, mark)
    result = (ResultRow.run_id == run_id, ResultRow.series_id == series_id)
    tx.execute(sa.update(ResultRow.__table__).where(*result).values(invalid=mark is not None))
    mark_points_of_run_stale(tx, run_id, series_id)
    _mark_verdicts(tx, run_id)
    mark_projects_changed(tx, [project_id])
    return True


def find_runs_of_point(tx: Session, project_id: int, series_id: int, sha: str) -> list[tuple[int, str]]:
    """Find the runs, by id and key, that gave the point of a series at a commit."""
    query = (
        sa.select(RunRow.id, RunRow.key)
        .join(ResultRow, ResultRow.run_id == RunRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(CommitRow.project_id == project_id, CommitRow.sha == sha, CommitRow.dirty.is_(False))
        .where(ResultRow.series_id == series_id, SessionRow.kind.in_(HISTORY_KINDS))
        .order_by(RunRow.id)
    )
    return [(row.id, row.key) for row in tx.execute(query)]


def _find_marks(tx: Session, run_id: int, series_id: int | None) -> Sequence[int]:
    return tx.scalars(sa.select(MARKS.c.id).where(*_match(run_id, series_id))).all()


def _match(run_id: int, series_id: int | None) -> tuple[sa.ColumnElement[bool], ...]:
    of_series = MARKS.c.series_id.is_(None) if series_id is None else MARKS.c.series_id == series_id
    return MARKS.c.run_id == run_id, of_series


def _replace_marks(
    tx: Session, project_id: int, run_id: int, series_id: int | None, mark: InvalidMark | None
) -> None:
    tx.execute(sa.delete(MARKS).where(*_match(run_id, series_id)))
    if mark is not None:
        values = {"reason": mark.reason, "marked_by": mark.marked_by, "marked_at": mark.marked_at}
        tx.execute(
            sa.insert(MARKS).values(project_id=project_id, run_id=run_id, series_id=series_id, **values)
        )


def _mark_verdicts(tx: Session, run_id: int) -> None:
    """Let the verdicts that rest on a run stand or not, as the runs and results of their session say."""
    run = tx.execute(
        sa.select(RunRow.session_id, CommitRow.sha)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(RunRow.id == run_id)
    ).one()
    commit_of_verdict = sa.or_(CommitRow.sha == VerdictRow.base, CommitRow.sha == VerdictRow.head)
    is_invalid = (
        sa.select(ResultRow.id)
        .join(RunRow, ResultRow.run_id == RunRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(RunRow.session_id == VerdictRow.session_id, ResultRow.series_id == VerdictRow.series_id)
        .where(commit_of_verdict, sa.or_(RunRow.invalid, ResultRow.invalid))
        .correlate(VerdictRow)
        .exists()
    )
    of_run = sa.or_(VerdictRow.base == run.sha, VerdictRow.head == run.sha)
    tx.execute(
        sa.update(VerdictRow.__table__)
        .where(VerdictRow.session_id == run.session_id, of_run)
        .values(invalid=is_invalid)
    )
