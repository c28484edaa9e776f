"""Which runs an export writes, commit after commit."""

from __future__ import annotations

from itertools import groupby

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.queries.commit_order import sort_commits
from perfci.store.queries.loaders import HISTORY_KINDS, load_commits, matches_project
from perfci.store.tables.measurements import CommitRow, RunRow, SessionRow


def load_history_run_ids(tx: Session, project: str) -> list[list[int]]:
    """The ids of the runs that make up the histories of a project, oldest commit first, those of one commit together.

    What a pull request or an A/A run measured is no history of anything.
    """
    rows = tx.execute(
        sa.select(RunRow.id, RunRow.commit_id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(matches_project(SessionRow.project_id, project), SessionRow.kind.in_(HISTORY_KINDS))
        .order_by(RunRow.started_at, RunRow.id)
    ).all()
    commits = load_commits(tx, matches_project(CommitRow.project_id, project))
    ids = {commit: row_id for row_id, commit in commits.items()}
    place = {ids[commit]: number for number, commit in enumerate(sort_commits(ids))}
    ordered = sorted(rows, key=lambda row: place[row.commit_id])
    return [[row.id for row in of_commit] for _, of_commit in groupby(ordered, key=lambda row: row.commit_id)]
