"""Look up runs, sessions and commits while a run is uploaded or forwarded."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import NamedValues
from perfci.store.columns import pairs_from_json
from perfci.store.database import execute_on_driver
from perfci.store.queries.series_and_commits import (
    HISTORY_KINDS,
    load_commits,
    project_id_matches,
    sort_commits,
)
from perfci.store.tables.measurements import CommitRow, RunRow, SessionRow


def find_run_by_key(tx: Session, key: str) -> int | None:
    """Find the id of a run by its key."""
    return tx.scalar(sa.select(RunRow.id).where(RunRow.key == key))


def has_commit(tx: Session, project_id: int, sha: str) -> bool:
    """Whether a commit is stored."""
    return (
        execute_on_driver(
            tx, "SELECT 1 FROM commits WHERE project_id = ? AND sha = ?", [project_id, sha]
        ).fetchone()
        is not None
    )


def load_session_run_ids(tx: Session, uid: str) -> list[int]:
    """Load the ids of the runs of a session in the order they started."""
    query = (
        sa.select(RunRow.id).join(SessionRow, RunRow.session_id == SessionRow.id).where(SessionRow.uid == uid)
    )
    return list(tx.scalars(query.order_by(RunRow.started_at, RunRow.id)))


def find_sessions_started_after(tx: Session, uid: str, others: Collection[str]) -> set[str]:
    """Find which of some other sessions started after this one."""
    mine = sa.select(SessionRow.started_at).where(SessionRow.uid == uid).scalar_subquery()
    return set(
        tx.scalars(sa.select(SessionRow.uid).where(SessionRow.uid.in_(others), SessionRow.started_at > mine))
    )


def load_run_origins_of_session(tx: Session, uid: str) -> list[NamedValues]:
    """Load the distinct origins of the runs of a session."""
    query = (
        sa.select(RunRow.origin)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.uid == uid)
    )
    return [pairs_from_json(row) for row in tx.scalars(query.distinct())]


def load_history_run_ids(tx: Session, project: str) -> list[list[int]]:
    """Load the ids of the runs in a project's histories, oldest commit first.

    Runs of pull requests and A/A runs are in no history.
    """
    rows = tx.execute(
        sa.select(RunRow.id, RunRow.commit_id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(project_id_matches(SessionRow.project_id, project), SessionRow.kind.in_(HISTORY_KINDS))
        .order_by(RunRow.started_at, RunRow.id)
    ).all()
    commits = load_commits(tx, project_id_matches(CommitRow.project_id, project))
    ids = {commit: row_id for row_id, commit in commits.items()}
    place = {ids[commit]: number for number, commit in enumerate(sort_commits(ids))}
    ordered = sorted(rows, key=lambda row: place[row.commit_id])
    return [[row.id for row in of_commit] for _, of_commit in groupby(ordered, key=lambda row: row.commit_id)]
