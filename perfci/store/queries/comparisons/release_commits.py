"""Find the commits that changes are counted from: releases, and the last value of a series before a date."""

from __future__ import annotations

from datetime import datetime
from fnmatch import fnmatchcase

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit, Status
from perfci.store.queries.history_conditions import restrict_to_history
from perfci.store.queries.series_commits_machines import load_commits_by_id
from perfci.store.tables.measurements import CommitRow, ResultRow

MAX_TAGGED = 500
"""The newest commits with a tag, among which a release is sought."""


def find_tagged_commit(tx: Session, project_id: int, pattern: str) -> tuple[str, Commit] | None:
    """Find the newest commit with a tag of a pattern, and that tag; of several the first by name."""
    newest = (
        sa.select(CommitRow.id)
        .where(
            CommitRow.project_id == project_id,
            CommitRow.dirty.is_(False),
            sa.type_coerce(CommitRow.tags, sa.Text) != "[]",
        )
        .order_by(CommitRow.position.desc().nulls_last(), CommitRow.committed_at.desc().nulls_last())
        .limit(MAX_TAGGED)
    )
    ids = list(tx.scalars(newest))
    commits = load_commits_by_id(tx, ids=ids)
    for row_id in ids:
        matching = sorted(tag for tag in commits[row_id].tags if fnmatchcase(tag, pattern))
        if matching:
            return matching[0], commits[row_id]
    return None


def find_last_measured_commit_id(tx: Session, series_id: int, until: Commit | datetime) -> int | None:
    """Find the last commit up to another one, or up to a date, that a series has a value of."""
    query = restrict_to_history(sa.select(CommitRow.id)).where(
        ResultRow.series_id == series_id, ResultRow.status == Status.OK.value
    )
    if isinstance(until, Commit) and until.position is not None:
        query = query.where(CommitRow.position <= until.position).order_by(CommitRow.position.desc())
    else:
        end = until.committed_at if isinstance(until, Commit) else until
        query = query.where(CommitRow.committed_at <= end).order_by(CommitRow.committed_at.desc())
    commit_id: int | None = tx.scalar(query.limit(1))
    return commit_id
